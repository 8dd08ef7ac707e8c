# kind: several
# expect: nothing
# why: The generator's loss leaves gradients in the discriminator, but they are cleared before its backward; fakes carry no graph.
"""Hinge GAN with spectral norm and an averaged generator on small blob images."""
import argparse
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

SIDE, NOISE = 8, 16


def make_blobs(n: int, gen: torch.Generator) -> Tensor:
    axis = torch.linspace(-1, 1, SIDE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    centre = torch.rand(n, 2, 1, 1, generator=gen) * 1.2 - 0.6
    size = 0.25 + 0.25 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2) / (2 * size**2))
    return (2 * img - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.start = nn.Linear(NOISE, width * 16)
        self.body = nn.Sequential(
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.body(self.start(z).view(len(z), -1, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(
            spectral_norm(nn.Conv2d(1, width, 3, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(width, width * 2, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            spectral_norm(nn.Linear(width * 2 * 16, 1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)


class Average:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def update(self, live: nn.Module, step: int) -> None:
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        for a, b in zip(self.model.parameters(), live.parameters()):
            a.lerp_(b, weight)


def endless(loader: DataLoader) -> Iterator[Tensor]:
    while True:
        for (x,) in loader:
            yield x


def d_step(gen: Generator, disc: Discriminator, opt: torch.optim.Optimizer, real: Tensor) -> float:
    with torch.no_grad():
        fake = gen(torch.randn(len(real), NOISE))
    loss = F.relu(1 - disc(real)).mean() + F.relu(1 + disc(fake)).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.item()


def g_step(gen: Generator, disc: Discriminator, opt: torch.optim.Optimizer, n: int) -> float:
    loss = -disc(gen(torch.randn(n, NOISE))).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.item()


@torch.no_grad()
def mmd(model: nn.Module, real: Tensor, z: Tensor) -> float:
    """Squared kernel distance between held-out images and samples from fixed noise."""
    model.eval()
    a, b = real.flatten(1), model(z).flatten(1)

    def kernel(u: Tensor, v: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(u, v).square() / 20.0)

    return (kernel(a, a).mean() + kernel(b, b).mean() - 2 * kernel(a, b).mean()).item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--d-per-g", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=14)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    source = torch.Generator().manual_seed(args.seed)
    train, held_out = make_blobs(2048, source), make_blobs(400, source)
    fixed = torch.randn(400, NOISE, generator=source)
    data = endless(DataLoader(TensorDataset(train), batch_size=args.batch, shuffle=True, drop_last=True))

    gen, disc = Generator(), Discriminator()
    average = Average(gen, 0.99)
    g_opt = torch.optim.Adam(gen.parameters(), lr=5e-4, betas=(0.0, 0.9))
    d_opt = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.0, 0.9))
    for step in range(1, args.steps + 1):
        gen.train()
        disc.train()
        for _ in range(args.d_per_g):
            d_loss = d_step(gen, disc, d_opt, next(data))
        g_loss = g_step(gen, disc, g_opt, args.batch)
        average.update(gen, step)
        if step % 100 == 0:
            scores = mmd(gen, held_out, fixed), mmd(average.model, held_out, fixed)
            print(f"{step} d {d_loss:.3f} g {g_loss:.3f} mmd live {scores[0]:.4f} average {scores[1]:.4f}")


if __name__ == "__main__":
    main()
