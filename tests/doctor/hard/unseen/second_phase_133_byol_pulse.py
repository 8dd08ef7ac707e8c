# kind: second_phase
# expect: nothing
# why: BYOL is right: the target network is a separate copy moved by a moving average, its batch norms run in train mode as in the paper, and the probe trains on features taken once in eval mode under no_grad.
"""Self-supervised pretraining of a pulse encoder, then a linear probe on few labels."""
import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def make_pulses(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    t = torch.linspace(0, 1, 96)
    label = torch.randint(0, 4, (n,), generator=gen)
    freq = torch.tensor([3.0, 4.5, 6.0, 8.0])[label] + 0.2 * torch.randn(n, generator=gen)
    skew = torch.tensor([0.2, 0.6, 0.1, 0.4])[label]
    phase = 2 * math.pi * torch.rand(n, generator=gen)
    angle = 2 * math.pi * freq[:, None] * t + phase[:, None]
    wave = torch.sin(angle) + skew[:, None] * torch.sin(2 * angle)
    wave = wave + 0.3 * torch.randn(n, 96, generator=gen)
    wave = (wave - wave.mean(1, keepdim=True)) / wave.std(1, keepdim=True)
    return wave.unsqueeze(1), label


def view(x: Tensor) -> Tensor:
    """One random view of every pulse: crop, gain, sign and noise."""
    start = torch.randint(0, 33, (x.shape[0], 1, 1))
    index = start + torch.arange(64).view(1, 1, 64)
    crop = x.gather(2, index)
    gain = 0.7 + 0.6 * torch.rand(x.shape[0], 1, 1)
    sign = torch.where(torch.rand(x.shape[0], 1, 1) < 0.5, -1.0, 1.0)
    return crop * gain * sign + 0.1 * torch.randn_like(crop)


def conv_encoder(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(1, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
        nn.Conv1d(width, 2 * width, 5, stride=2, padding=2, bias=False), nn.BatchNorm1d(2 * width), nn.ReLU(),
        nn.Conv1d(2 * width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm1d(2 * width), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )


def mlp(inp: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inp, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, out))


class Byol(nn.Module):
    def __init__(self, width: int = 16, dim: int = 32) -> None:
        super().__init__()
        self.encoder = conv_encoder(width)
        self.projector = mlp(2 * width, 64, dim)
        self.predictor = mlp(dim, 64, dim)
        self.target = copy.deepcopy(nn.Sequential(self.encoder, self.projector)).requires_grad_(False)

    def online_parameters(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        pa = F.normalize(self.predictor(self.projector(self.encoder(a))), dim=1)
        pb = F.normalize(self.predictor(self.projector(self.encoder(b))), dim=1)
        with torch.no_grad():
            ta = F.normalize(self.target(a), dim=1)
            tb = F.normalize(self.target(b), dim=1)
        return 4 - 2 * ((pa * tb).sum(1) + (pb * ta).sum(1)).mean()

    @torch.no_grad()
    def move_target(self, tau: float) -> None:
        online = list(self.encoder.parameters()) + list(self.projector.parameters())
        for t, o in zip(self.target.parameters(), online, strict=True):
            t.lerp_(o, 1 - tau)


def pretrain(model: Byol, pulses: Tensor, epochs: int, lr: float) -> None:
    loader = DataLoader(TensorDataset(pulses), batch_size=128, shuffle=True, drop_last=True)
    steps = epochs * len(loader)
    opt = torch.optim.AdamW(model.online_parameters(), lr=lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    done = 0
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for (x,) in loader:
            loss = model(view(x), view(x))
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            done += 1
            model.move_target(1 - 0.03 * (math.cos(math.pi * done / steps) + 1) / 2)
            total += loss.item()
        print(f"pretrain {epoch}: loss {total / len(loader):.4f}")


@torch.no_grad()
def features(encoder: nn.Module, pulses: Tensor) -> Tensor:
    encoder.eval()
    return torch.cat([encoder(chunk) for chunk in pulses.split(256)])


def probe(train: tuple[Tensor, Tensor], valid: tuple[Tensor, Tensor], epochs: int) -> float:
    mean, std = train[0].mean(0), train[0].std(0) + 1e-6
    loader = DataLoader(TensorDataset((train[0] - mean) / std, train[1]), batch_size=50, shuffle=True)
    head = nn.Linear(train[0].shape[1], 4)
    opt = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(head(x), y).backward()
            opt.step()
    head.eval()
    with torch.no_grad():
        return (head((valid[0] - mean) / std).argmax(1) == valid[1]).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=18)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    pulses, _ = make_pulses(1920, gen)
    few = make_pulses(400, gen)
    held = make_pulses(600, gen)
    model = Byol()
    pretrain(model, pulses, args.epochs, args.lr)
    accuracy = probe((features(model.encoder, few[0]), few[1]), (features(model.encoder, held[0]), held[1]), 30)
    print(f"probe accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
