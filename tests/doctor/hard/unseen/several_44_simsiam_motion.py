# kind: several losses and optimizers
# expect: nothing
# like: teacher-shares-weights
# why: SimSiam; both branches, the predicting one and the one behind the stop-gradient, are the same encoder
#      on purpose. The online probe reads detached features and has its own optimizer.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

CLASSES, CHANNELS, STEPS = 5, 3, 40


class Motion(Dataset):
    """Accelerometer windows of five activities."""

    def __init__(self, n, seed, train):
        g = torch.Generator().manual_seed(seed)
        t = torch.linspace(0, 1, STEPS)
        self.y = torch.randint(CLASSES, (n,), generator=g)
        freq = (2.0 + 2.0 * self.y.float())[:, None, None] + 0.3 * torch.randn(n, 1, 1, generator=g)
        phase = 6.28 * torch.rand(n, CHANNELS, 1, generator=g)
        x = torch.sin(6.28 * freq * t + phase) + 0.3 * torch.randn(n, CHANNELS, STEPS, generator=g)
        self.x = x / 0.77
        self.train = train

    def __len__(self):
        return len(self.y)

    def view(self, x):
        x = torch.roll(x, int(torch.randint(STEPS, ())), dims=-1)
        return x * (1 + 0.2 * torch.randn(CHANNELS, 1)) + 0.2 * torch.randn_like(x)

    def __getitem__(self, i):
        x = self.x[i]
        if self.train:
            return self.view(x), self.view(x), self.y[i]
        return x, self.y[i]


class SimSiam(nn.Module):
    def __init__(self, width=32, dim=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.projector = nn.Sequential(nn.Linear(width, dim, bias=False), nn.BatchNorm1d(dim), nn.ReLU(),
                                       nn.Linear(dim, dim, bias=False), nn.BatchNorm1d(dim))
        self.predictor = nn.Sequential(nn.Linear(dim, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, dim))

    def branch(self, x):
        h = self.encoder(x)
        z = self.projector(h)
        return h, z, self.predictor(z)


def negative_cosine(p, z):
    return -F.cosine_similarity(p, z.detach(), dim=1).mean()


def main():
    torch.manual_seed(19)
    train = DataLoader(Motion(1536, seed=1, train=True), batch_size=64, shuffle=True)
    valid = DataLoader(Motion(500, seed=2, train=False), batch_size=100)
    model, probe = SimSiam(), nn.Linear(32, CLASSES)
    epochs = 8
    opt_enc = torch.optim.SGD([*model.encoder.parameters(), *model.projector.parameters()], lr=0.05, momentum=0.9, weight_decay=1e-4)
    opt_pred = torch.optim.SGD(model.predictor.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    opt_probe = torch.optim.Adam(probe.parameters(), lr=1e-2)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt_enc, T_max=epochs)

    for epoch in range(epochs):
        model.train()
        probe.train()
        sim_sum = probe_sum = 0.0
        for a, b, y in train:
            ha, za, pa = model.branch(a)
            hb, zb, pb = model.branch(b)
            sim = 0.5 * (negative_cosine(pa, zb) + negative_cosine(pb, za))
            guess = F.cross_entropy(probe(ha.detach()), y)
            for opt in (opt_enc, opt_pred, opt_probe):
                opt.zero_grad()
            (sim + guess).backward()
            for opt in (opt_enc, opt_pred, opt_probe):
                opt.step()
            sim_sum += sim.item() / len(train)
            probe_sum += guess.item() / len(train)
        cosine.step()

        model.eval()
        probe.eval()
        hits = 0
        with torch.no_grad():
            for x, y in valid:
                hits += (probe(model.encoder(x)).argmax(1) == y).sum().item()
        print(f"epoch {epoch}: similarity {sim_sum:.3f} probe {probe_sum:.3f} valid accuracy {hits / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
