# kind: behind indirection
# expect: evaluated-with-grad
# why: predictions() is decorated with no_grad but only builds a lazy map; the model runs when the scoring code consumes
#      it, outside of the decorator, and records graphs for every validation batch.
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def jets(n, seed):
    """Particle jets: (log pt, eta, phi) of 20 constituents, one- or two-pronged."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=g)
    frac = 0.35 + 0.3 * torch.rand(n, 1, generator=g)
    side = (torch.rand(n, 20, generator=g) < frac).float() * 2 - 1
    axis = torch.rand(n, 1, generator=g) * 6.283
    sep = 0.45 * y[:, None].float() * side
    eta = sep * axis.cos() + 0.3 * torch.randn(n, 20, generator=g)
    phi = sep * axis.sin() + 0.3 * torch.randn(n, 20, generator=g)
    pt = torch.randn(n, 20, generator=g) * 0.8 - 0.5 * (eta**2 + phi**2)
    return torch.stack([pt, eta, phi], -1), y


class DeepSet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.15), nn.Linear(width, 2))

    def forward(self, parts):
        h = self.phi(parts)
        return self.rho(torch.cat([h.mean(1), h.amax(1)], 1))


class Standard:
    def __init__(self, sample):
        self.mean, self.std = sample.mean((0, 1)), sample.std((0, 1))

    def __call__(self, x):
        return (x - self.mean) / self.std


# ---------------------------------------------------------------- evaluation
@torch.no_grad()
def predictions(model, loader):
    model.eval()
    return map(lambda batch: (model(batch[0]), batch[1]), loader)


class Tally:
    def __init__(self, **metrics):
        self.metrics = metrics

    def __call__(self, stream):
        sums, n = dict.fromkeys(self.metrics, 0.0), 0
        for out, y in stream:
            n += len(y)
            for name, fn in self.metrics.items():
                sums[name] += fn(out, y).item()
        return {k: v / n for k, v in sums.items()}


score = Tally(
    nll=lambda o, y: nn.functional.cross_entropy(o, y, reduction="sum"),
    acc=lambda o, y: (o.argmax(1) == y).sum(),
    sure=lambda o, y: o.softmax(1).amax(1).sum(),
)


# ---------------------------------------------------------------- training
def epoch_of(model, loader, opt):
    model.train()
    run = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run += loss.item() * len(y)
    return run / len(loader.dataset)


def main():
    torch.manual_seed(9)
    xt, yt = jets(2000, 10)
    xv, yv = jets(600, 20)
    norm = Standard(xt)
    train = DataLoader(TensorDataset(norm(xt), yt), batch_size=50, shuffle=True)
    valid = DataLoader(TensorDataset(norm(xv), yv), batch_size=100)
    model = DeepSet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8)
    for epoch in range(8):
        tr = epoch_of(model, train, opt)
        sched.step()
        res = score(predictions(model, valid))
        print(f"epoch {epoch}: train {tr:.4f} | " + " ".join(f"{k} {v:.4f}" for k, v in res.items()))


if __name__ == "__main__":
    main()
