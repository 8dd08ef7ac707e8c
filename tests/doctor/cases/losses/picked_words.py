"""Words by hand-picked scores, with a penalty."""
import torch
from torch import nn

torch.manual_seed(18)
x = torch.randint(0, 40, (1500, 9))
rule = torch.randint(0, 6, (40,))
y = rule[x]


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 24)
        self.out = nn.Linear(24, 6)

    def forward(self, ids):
        return self.out(torch.relu(self.emb(ids)))


model = Words()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(5):
    for idx in torch.randperm(1500).split(50):
        scores = model(x[idx])
        nll = -scores.gather(2, y[idx].unsqueeze(2)).mean()
        loss = nll + 1e-4 * sum(p.pow(2).sum() for p in model.parameters())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
