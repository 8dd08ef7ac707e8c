import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def augment(self, x):
        return x * (torch.rand_like(x) > 0.1) + 0.1 * torch.randn_like(x)

    def __getitem__(self, i):
        return self.augment(self.x[i]), self.augment(self.x[i])


def nt_xent(z1, z2, temperature=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    n = len(z1)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


def main():
    torch.manual_seed(19)
    data = torch.randn(6, 12)[torch.randint(0, 6, (320,))] + 0.2 * torch.randn(320, 12)
    loader = DataLoader(TwoViews(data), batch_size=32, shuffle=True, drop_last=True)
    encoder = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    projector = nn.Sequential(nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=3e-3)
    for epoch in range(4):
        encoder.train()
        for a, b in loader:
            loss = nt_xent(projector(encoder(a)), projector(encoder(b)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
