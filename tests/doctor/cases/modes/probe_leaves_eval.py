"""Contrastive features with a nearest-neighbour probe every few hundred steps."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(8)
g = torch.Generator().manual_seed(1)
centres = torch.randn(6, 24, generator=g)
labels = torch.randint(0, 6, (1800,), generator=g)
data = centres[labels] + 0.7 * torch.randn(1800, 24, generator=g)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 32))
        self.head = nn.Linear(32, 6)

    def forward(self, x):
        return self.head(F.relu(self.encoder(x)))


@torch.no_grad()
def probe(encoder, x, y):
    encoder.eval()
    z = F.normalize(encoder(x), dim=1)
    sims = z[:200] @ z[200:].t()
    return (y[200:][sims.argmax(1)] == y[:200]).float().mean().item()


model = Model().train()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0
for epoch in range(6):
    for idx in torch.randperm(1400, generator=g).split(50):
        loss = F.cross_entropy(model(data[idx]), labels[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 40 == 0:
            print(step, f"{loss.item():.3f}", f"knn {probe(model.encoder, data[1400:], labels[1400:]):.3f}")
