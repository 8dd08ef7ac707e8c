# kind: second_phase
# expect: nothing
# why: A flow is trained by Adam on shuffled minibatches and then polished by LBFGS with a closure on the whole training set, where the same data in every step are what LBFGS needs. The data-dependent start of ActNorm is written once under no_grad, and the best weights are cloned.
"""RealNVP density of sensor readings: Adam first, full-batch LBFGS to finish."""
from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class ActNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.register_buffer("ready", torch.tensor(False))

    @torch.no_grad()
    def start_from(self, x: Tensor) -> Tensor:
        self.shift.copy_(-x.mean(0))
        self.log_scale.copy_(-(x.std(0) + 1e-6).log())
        self.ready.fill_(True)
        return self(x)[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum().expand(x.shape[0])


class Coupling(nn.Module):
    def __init__(self, dim: int, hidden: int, flip: bool) -> None:
        super().__init__()
        mask = (torch.arange(dim) % 2 == int(flip)).float()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2 * dim))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shift, scale = self.net(x * self.mask).chunk(2, dim=1)
        scale = 1.5 * torch.tanh(scale) * (1 - self.mask)
        return x * scale.exp() + shift * (1 - self.mask), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, dim: int, blocks: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(blocks):
            self.layers.append(ActNorm(dim))
            self.layers.append(Coupling(dim, hidden, flip=bool(i % 2)))

    @torch.no_grad()
    def start_from(self, x: Tensor) -> None:
        for layer in self.layers:
            x = layer.start_from(x) if isinstance(layer, ActNorm) else layer(x)[0]

    def log_prob(self, x: Tensor) -> Tensor:
        total = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return total - 0.5 * x.square().sum(1) - 0.5 * x.shape[1] * math.log(2 * math.pi)


def readings(n: int, gen: torch.Generator) -> Tensor:
    angle = math.pi * torch.rand(n, generator=gen)
    side = torch.randint(0, 2, (n,), generator=gen).float() * 2 - 1
    a = side * torch.cos(angle) + 0.5 * side
    b = side * torch.sin(angle)
    c = 0.5 * a.square() - 0.5 + 0.2 * torch.randn(n, generator=gen)
    d = torch.sin(2 * b) + 0.2 * torch.randn(n, generator=gen)
    return torch.stack([a, b, c, d], 1) + 0.08 * torch.randn(n, 4, generator=gen)


@torch.no_grad()
def nll(flow: Flow, x: Tensor) -> float:
    flow.eval()
    value = -flow.log_prob(x).mean().item()
    flow.train()
    return value


class Keeper:
    def __init__(self, flow: Flow, valid: Tensor) -> None:
        self.flow, self.valid, self.best = flow, valid, math.inf
        self.state = copy.deepcopy(flow.state_dict())

    def look(self, tag: str) -> None:
        value = nll(self.flow, self.valid)
        print(f"{tag}: valid nll {value:.4f}")
        if value < self.best:
            self.best, self.state = value, copy.deepcopy(self.flow.state_dict())


def adam_phase(flow: Flow, train: Tensor, keeper: Keeper, epochs: int) -> None:
    loader = DataLoader(TensorDataset(train), batch_size=100, shuffle=True)
    opt = torch.optim.Adam(flow.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs, eta_min=1e-4)
    for epoch in range(epochs):
        for (x,) in loader:
            loss = -flow.log_prob(x + 0.02 * torch.randn_like(x)).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            opt.step()
        sched.step()
        if epoch % 3 == 2:
            keeper.look(f"adam {epoch}")


def lbfgs_phase(flow: Flow, train: Tensor, keeper: Keeper, rounds: int) -> None:
    opt = torch.optim.LBFGS(flow.parameters(), lr=0.5, max_iter=5, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        opt.zero_grad()
        loss = -flow.log_prob(train).mean() + 1e-4 * sum(p.square().sum() for p in flow.parameters())
        loss.backward()
        return loss

    for r in range(rounds):
        opt.step(closure)
        keeper.look(f"lbfgs {r}")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(29)
    gen = torch.Generator().manual_seed(29)
    data = readings(2800, gen)
    mean, std = data[:2000].mean(0), data[:2000].std(0)
    train, valid, test = ((part - mean) / std for part in data.split([2000, 400, 400]))
    flow = Flow(4, blocks=5, hidden=40)
    flow.start_from(train[:256])
    keeper = Keeper(flow, valid)
    adam_phase(flow, train, keeper, epochs=24)
    lbfgs_phase(flow, train, keeper, rounds=8)
    flow.load_state_dict(keeper.state)
    print(f"test nll {nll(flow, test):.4f}")


if __name__ == "__main__":
    main()
