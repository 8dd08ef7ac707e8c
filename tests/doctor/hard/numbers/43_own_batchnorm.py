# kind: numbers
# expect: nothing
# like: batch-mixed
# why: the hand-written normalisation takes statistics over the batch only in training mode and uses its
#   running averages in eval mode, as batch norm should.
import torch
from torch import nn

torch.set_num_threads(1)


class BatchStandardise(nn.Module):
    def __init__(self, width, momentum=0.1, eps=1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))
        self.register_buffer("mu", torch.zeros(width))
        self.register_buffer("sigma2", torch.ones(width))

    def forward(self, x):
        if self.training:
            mu = x.mean(dim=0)
            sigma2 = (x - mu).square().mean(dim=0)
            with torch.no_grad():
                n = x.shape[0]
                self.mu.lerp_(mu, self.momentum)
                self.sigma2.lerp_(sigma2 * n / (n - 1), self.momentum)
        else:
            mu, sigma2 = self.mu, self.sigma2
        return (x - mu) / torch.sqrt(sigma2 + self.eps) * self.gamma + self.beta


def stack(widths, activation):
    parts = []
    for a, b in zip(widths[:-2], widths[1:-1]):
        parts += [nn.Linear(a, b, bias=False), BatchStandardise(b), activation()]
    parts.append(nn.Linear(widths[-2], widths[-1]))
    return nn.Sequential(*parts)


def energy_table(n, seed):
    """Steady-state plant readings and the power that comes of them."""
    g = torch.Generator().manual_seed(seed)
    temp = 20 + 7 * torch.randn(n, generator=g)
    pressure = 1013 + 6 * torch.randn(n, generator=g)
    humidity = 100 * torch.rand(n, generator=g)
    vacuum = 54 + 12 * torch.randn(n, generator=g)
    valve = torch.rand(n, 4, generator=g)
    power = (480 - 1.7 * temp + 0.05 * (pressure - 1013) * (humidity - 50) / 10 - 0.02 * (vacuum - 54) ** 2
             + 12 * torch.sin(3 * valve[:, 0]) * valve[:, 1] + 1.0 * torch.randn(n, generator=g))
    x = torch.cat([torch.stack([temp, pressure, humidity, vacuum], 1), valve], 1)
    return x, power.unsqueeze(1)


def batches(x, y, size):
    order = torch.randperm(len(x))
    full = len(x) // size * size
    for idx in order[:full].view(-1, size):
        yield x[idx], y[idx]


def train(widths=(8, 64, 64, 1), epochs=12, size=64, lr=4e-3):
    torch.manual_seed(17)
    x, y = energy_table(3200, seed=50)
    vx, vy = energy_table(800, seed=51)
    xm, xs, ym, ys = x.mean(0), x.std(0), y.mean(), y.std()
    x, vx, y, vy = (x - xm) / xs, (vx - xm) / xs, (y - ym) / ys, (vy - ym) / ys

    model = stack(widths, nn.ReLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        model.train()
        losses = []
        for xb, yb in batches(x, y, size):
            loss = (model(xb) - yb).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        model.eval()
        with torch.no_grad():
            residual = model(vx) - vy
        r2 = 1 - residual.square().sum() / (vy - vy.mean()).square().sum()
        print(f"epoch {epoch:2d} mse {sum(losses) / len(losses):.4f} valid r2 {r2.item():.4f}")


train()
