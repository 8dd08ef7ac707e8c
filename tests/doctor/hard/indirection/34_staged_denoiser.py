# kind: behind indirection
# expect: stale-optimizer
# also: parameter-not-optimized
# why: The build stages run in the order they are registered, and "reparametrise" (weight_norm on every convolution of
#      the body) comes after "optimizer": the optimizer holds the old weights, the new g and v are in none.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

STAGES = []


def stage(fn):
    STAGES.append(fn)
    return fn


class Lab:
    """A namespace that the stages fill in one after the other."""

    def __init__(self, **options):
        self.__dict__.update(options)
        for fn in STAGES:
            fn(self)


@stage
def seeds(lab):
    torch.manual_seed(lab.seed)


@stage
def data(lab):
    g = torch.Generator().manual_seed(lab.seed + 1)

    def clips(n):
        t = torch.linspace(0, 1, 128)
        f = 2 + 10 * torch.rand(n, 3, 1, generator=g)
        ph = 6.283 * torch.rand(n, 3, 1, generator=g)
        clean = torch.sin(6.283 * f * t + ph).mean(1, keepdim=True) / 0.41
        return clean + 0.7 * torch.randn(clean.shape, generator=g), clean

    lab.train = DataLoader(TensorDataset(*clips(768)), lab.batch, shuffle=True)
    lab.valid = DataLoader(TensorDataset(*clips(192)), 96)


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lift = nn.Conv1d(1, width, 9, padding=4)
        self.body = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2 * d, dilation=d) for d in (1, 2, 4))
        self.drop = nn.Conv1d(width, 1, 9, padding=4)

    def forward(self, x):
        h = F.gelu(self.lift(x))
        for conv in self.body:
            h = h + F.gelu(conv(h))
        return self.drop(h)


@stage
def network(lab):
    lab.net = Denoiser(lab.width)


@stage
def optimizer(lab):
    decay = [p for p in lab.net.parameters() if p.ndim > 1]
    plain = [p for p in lab.net.parameters() if p.ndim <= 1]
    lab.opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 1e-3}, {"params": plain, "weight_decay": 0.0}], lr=lab.lr
    )


@stage
def reparametrise(lab):
    wrap = {"weight": parametrizations.weight_norm, "none": lambda m: m}[lab.norm]
    for conv in lab.net.body:
        wrap(conv)


def train_epoch(lab):
    lab.net.train()
    seen = total = 0
    for noisy, clean in lab.train:
        loss = F.l1_loss(lab.net(noisy), clean)
        lab.opt.zero_grad()
        loss.backward()
        lab.opt.step()
        total += loss.item() * len(noisy)
        seen += len(noisy)
    return total / seen


@torch.no_grad()
def check(lab):
    lab.net.eval()
    noise = power = 0.0
    for noisy, clean in lab.valid:
        noise += (lab.net(noisy) - clean).pow(2).sum().item()
        power += clean.pow(2).sum().item()
    return 10 * torch.log10(torch.tensor(power / noise)).item()


if __name__ == "__main__":
    lab = Lab(seed=21, batch=32, width=24, lr=2e-3, norm="weight", epochs=8)
    for epoch in range(lab.epochs):
        print(f"{epoch:02d} l1 {train_epoch(lab):.4f}  snr {check(lab):.2f} dB")
