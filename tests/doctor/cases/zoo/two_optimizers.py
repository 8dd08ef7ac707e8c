import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 8, sparse=True)
        self.dense = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, a, b):
        return self.dense(torch.cat([self.embed(a), self.embed(b)], 1)).squeeze(1)


torch.manual_seed(8)
a, b = torch.randint(0, 60, (480,)), torch.randint(0, 60, (480,))
y = ((a - b).abs() < 15).float()
loader = DataLoader(TensorDataset(a, b, y), batch_size=32, shuffle=True)
model = Recommender()
optimizers = [
    torch.optim.SparseAdam(model.embed.parameters(), lr=1e-2),
    torch.optim.AdamW(model.dense.parameters(), lr=3e-3),
]
schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in optimizers]
for epoch in range(3):
    for ab, bb, yb in loader:
        for o in optimizers:
            o.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(ab, bb), yb)
        loss.backward()
        for o in optimizers:
            o.step()
    for s in schedulers:
        s.step()
    print(epoch, loss.item())
