"""A small language model with left padding."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(13)
V, PAD = 30, 0


def line():
    n, start = int(torch.randint(6, 20, ())), int(torch.randint(1, V, ()))
    return [(start + 3 * i) % (V - 1) + 1 for i in range(n)]


def batch(lines):
    width = max(map(len, lines))
    return torch.tensor([[PAD] * (width - len(each)) + each for each in lines])


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, V)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


model = Small()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for step in range(120):
    ids = batch([line() for _ in range(24)])
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 29:
        print(step, loss.item())
