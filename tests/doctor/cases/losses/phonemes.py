import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

PAD = 0


def utterance(i):
    g = torch.Generator().manual_seed(i)
    ids = torch.randint(1, 25, (int(torch.randint(5, 14, (1,), generator=g)),), generator=g)
    return ids, (ids * 3) % 11 + 1


def collate(batch):
    batch = sorted(batch, key=lambda pair: -len(pair[0]))
    lengths = torch.tensor([len(x) for x, _ in batch])
    xs = pad_sequence([x for x, _ in batch], batch_first=True)
    ys = pad_sequence([y for _, y in batch], batch_first=True)
    return xs, ys, lengths


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(25, 16, padding_idx=PAD)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.fc = nn.Linear(24, 12)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.fc(states)


def main():
    torch.manual_seed(0)
    loader = DataLoader([utterance(i) for i in range(320)], batch_size=32, shuffle=True, collate_fn=collate)
    model = Model()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        for x, y, lengths in loader:
            optimizer.zero_grad()
            logits = model(x, lengths)
            loss = criterion(logits.flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
