"""Speeds along trips of several lengths."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
import torch.nn.functional as F

torch.manual_seed(11)
trips = []
for _ in range(600):
    n = int(torch.randint(6, 25, ()))
    f = torch.randn(n, 4)
    trips.append((f, f[:, 0].cumsum(0) * 0.3 + 2.0))


def collate(items):
    xs, ys = zip(*items)
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True)


class Speed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).squeeze(-1)


model = Speed()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(5):
    order = torch.randperm(600).tolist()
    for lo in range(0, 600, 30):
        x, y = collate([trips[i] for i in order[lo:lo + 30]])
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
