import torch
import torch.nn.functional as F
from torch import nn


class Scorer(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.query = nn.Linear(d, 16)
        self.key = nn.Linear(d, 16)

    def forward(self, query, candidates):
        return self.query(query) @ self.key(candidates).t()


def questions(n):
    for _ in range(n):
        k = int(torch.randint(1, 5, (1,)))
        candidates = torch.randn(k, 8)
        right = int(torch.randint(0, k, (1,)))
        yield candidates[right : right + 1] + 0.1 * torch.randn(1, 8), candidates, torch.tensor([right])


torch.manual_seed(12)
model = Scorer()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step, (query, candidates, right) in enumerate(questions(60)):
    loss = F.cross_entropy(model(query, candidates), right)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
