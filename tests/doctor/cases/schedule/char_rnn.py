import torch
from torch import nn

torch.manual_seed(1)
text = "the quick brown fox jumps over the lazy dog and runs away from the dog again " * 4
chars = sorted(set(text))
index = {c: i for i, c in enumerate(chars)}
data = torch.tensor([index[c] for c in text])


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, 12)
        self.rnn = nn.GRU(12, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x):
        out, _ = self.rnn(self.embed(x))
        return self.head(out)


def get_batch(size=16, length=12):
    start = torch.randint(0, len(data) - length - 1, (size,))
    x = torch.stack([data[i : i + length] for i in start])
    y = torch.stack([data[i + 1 : i + length + 1] for i in start])
    return x, y


model = CharRNN(len(chars))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60, eta_min=1e-4)

for it in range(60):
    x, y = get_batch()
    logits = model(x)
    loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    scheduler.step()
    optimizer.step()
    if it % 20 == 0:
        print(it, round(loss.item(), 3), scheduler.get_last_lr()[0])
