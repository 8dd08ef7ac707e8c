import torch
import torch.nn.functional as F
from torch import nn


class PairScore(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(6, 12)
        self.right = nn.Linear(6, 12)
        self.score = nn.Linear(12, 1)

    def forward(self, a, b):
        joined = torch.tanh(self.left(a) + self.right(b))
        return torch.sign(self.score(joined))


torch.manual_seed(3)
model = PairScore()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    a = torch.randn(32, 6)
    same = torch.rand(32, 1) > 0.5
    b = torch.where(same, a, torch.randn(32, 6))
    score = model(a, b)
    loss = F.margin_ranking_loss(score, torch.zeros_like(score), same.float() * 2 - 1, margin=0.5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
