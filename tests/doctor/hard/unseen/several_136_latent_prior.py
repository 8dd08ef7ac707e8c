# kind: several
# expect: foreign-gradients
# why: The discriminator's gradients are cleared and filled by its own loss, but the encoder's fooling loss runs backward through the discriminator before the discriminator's step, so that step also uses the gradients of the opposite loss.
"""Adversarial autoencoder for spectra: the code is pushed towards a Gaussian prior."""
import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def spectra(n: int, gen: torch.Generator) -> Tensor:
    """Absorption lines of a mixture of four substances on a sloped baseline."""
    wave = torch.linspace(0, 1, 48)
    places = torch.tensor([[0.15, 0.4], [0.3, 0.75], [0.55, 0.6], [0.2, 0.9]])
    lines = torch.exp(-0.5 * ((wave.view(1, 1, 48) - places.unsqueeze(-1)) / 0.04) ** 2).sum(1)
    share = torch.softmax(1.5 * torch.randn(n, 4, generator=gen), dim=1)
    slope = 0.2 * torch.randn(n, 1, generator=gen)
    return share @ lines + slope * (wave - 0.5) + 0.02 * torch.randn(n, 48, generator=gen)


class Autoencoder(nn.Module):
    def __init__(self, inputs: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, code))
        self.decoder = nn.Sequential(nn.Linear(code, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, inputs))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return code, self.decoder(code)


class PriorMatcher:
    def __init__(self, inputs: int, code: int, lr: float, weight: float) -> None:
        self.code, self.weight = code, weight
        self.model = Autoencoder(inputs, code)
        self.disc = nn.Sequential(nn.Linear(code, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.disc_opt = torch.optim.Adam(self.disc.parameters(), lr=lr, betas=(0.5, 0.99))

    def disc_loss(self, code: Tensor) -> Tensor:
        prior = self.disc(torch.randn(code.shape[0], self.code))
        made = self.disc(code.detach())
        return 0.5 * (
            F.binary_cross_entropy_with_logits(prior, torch.ones_like(prior))
            + F.binary_cross_entropy_with_logits(made, torch.zeros_like(made))
        )

    def fool_loss(self, code: Tensor) -> Tensor:
        made = self.disc(code)
        return F.binary_cross_entropy_with_logits(made, torch.ones_like(made))

    def train_step(self, x: Tensor) -> tuple[float, float, float]:
        code, back = self.model(x)
        self.disc_opt.zero_grad()
        self.opt.zero_grad()
        disc_loss = self.disc_loss(code)
        disc_loss.backward()
        rebuilt = F.mse_loss(back, x)
        fool = self.fool_loss(code)
        (rebuilt + self.weight * fool).backward()
        self.disc_opt.step()
        self.opt.step()
        return rebuilt.item(), fool.item(), disc_loss.item()

    @torch.no_grad()
    def evaluate(self, loader: DataLoader) -> tuple[float, float, float]:
        self.model.eval()
        error, count, codes = 0.0, 0, []
        for (x,) in loader:
            code, back = self.model(x)
            error += F.mse_loss(back, x, reduction="sum").item()
            count += x.numel()
            codes.append(code)
        self.model.train()
        joined = torch.cat(codes)
        return error / count, joined.mean(0).abs().mean().item(), joined.std(0).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--code", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight", type=float, default=0.3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(83)
    data = spectra(4000, torch.Generator().manual_seed(83))
    mean, std = data[:3328].mean(0), data[:3328].std(0)
    data = (data - mean) / std
    train = DataLoader(TensorDataset(data[:3328]), batch_size=64, shuffle=True)
    valid = DataLoader(TensorDataset(data[3328:]), batch_size=224)
    matcher = PriorMatcher(48, args.code, args.lr, args.weight)
    for epoch in range(args.epochs):
        sums = torch.zeros(3)
        for (x,) in train:
            sums += torch.tensor(matcher.train_step(x))
        rebuilt, fool, disc = (sums / len(train)).tolist()
        error, centre, spread = matcher.evaluate(valid)
        print(
            f"epoch {epoch:2d} rebuilt {rebuilt:.4f} fool {fool:.4f} disc {disc:.4f} | "
            f"valid error {error:.4f} code mean {centre:.3f} code std {spread:.3f}"
        )


if __name__ == "__main__":
    main()
