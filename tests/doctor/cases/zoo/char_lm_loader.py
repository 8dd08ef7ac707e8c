import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, ids, length):
        self.ids, self.length = ids, length

    def __len__(self):
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, i):
        chunk = self.ids[i * self.length : (i + 1) * self.length + 1]
        return chunk[:-1], chunk[1:]


class LM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, vocab)

    def forward(self, x, h=None):
        y, h = self.gru(self.embed(x), h)
        return self.out(y), h


def main():
    torch.manual_seed(20)
    ids = torch.tensor(list((b"so much depends upon a red wheel barrow glazed with rain water beside the white chickens. " * 16)))
    ids = torch.unique(ids, return_inverse=True)[1]
    vocab = int(ids.max()) + 1
    loader = DataLoader(Windows(ids, 12), batch_size=6, shuffle=False, drop_last=True)
    model = LM(vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        hidden = None
        for x, y in loader:
            logits, hidden = model(x, hidden)
            hidden = hidden.detach()
            loss = F.cross_entropy(logits.reshape(-1, vocab), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
