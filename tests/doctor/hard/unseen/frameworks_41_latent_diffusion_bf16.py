# kind: inside frameworks
# expect: update-below-precision
# why: The denoiser that is being trained is cast to bfloat16 together with the inputs ("weight_dtype"); AdamW's steps of
#      about 1e-4 are below half a unit in the last place of most weights and round away.
import dataclasses
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclasses.dataclass
class TrainConfig:
    latent: int = 16
    width: int = 64
    timesteps: int = 100
    batch_size: int = 32
    epochs: int = 4
    learning_rate: float = 1e-4
    weight_dtype: str = "bfloat16"
    seed: int = 77


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)
        self.time = nn.Linear(width, width)

    def forward(self, h, temb):
        z = self.fc1(self.norm(h)) + self.time(temb)
        return h + self.fc2(F.silu(z))


class Denoiser(nn.Module):
    def __init__(self, latent, width, depth=2):
        super().__init__()
        self.width = width
        self.time_mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Linear(latent, width)
        self.blocks = nn.ModuleList(ResBlock(width) for _ in range(depth))
        self.out = nn.Linear(width, latent)

    def forward(self, x, t):
        half = self.width // 2
        freq = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
        angle = t[:, None].float() * freq
        temb = self.time_mlp(torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype))
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, temb)
        return self.out(h)


class Noiser:
    def __init__(self, steps):
        self.steps = steps
        self.alpha_bar = torch.cumprod(1 - torch.linspace(1e-3, 0.08, steps), dim=0)

    def add(self, x, noise, t):
        a = self.alpha_bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise


def latents(n, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(6, cfg.latent, generator=torch.Generator().manual_seed(500))
    x = centers[torch.randint(6, (n,), generator=g)] + 0.15 * torch.randn(n, cfg.latent, generator=g)
    return (x - centers.mean(0)) / centers.std(0).clamp(min=0.3)


def main(cfg: TrainConfig):
    set_seed(cfg.seed)
    accelerator = Accelerator(cpu=True)
    weight_dtype = getattr(torch, cfg.weight_dtype)
    noiser = Noiser(cfg.timesteps)

    model = Denoiser(cfg.latent, cfg.width)
    model.to(accelerator.device, dtype=weight_dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.learning_rate, betas=(0.9, 0.99), weight_decay=1e-2)
    train_loader = DataLoader(TensorDataset(latents(1600, cfg, 1)), cfg.batch_size, shuffle=True)

    g = torch.Generator().manual_seed(9)
    xv = latents(256, cfg, 2)
    tv = torch.randint(cfg.timesteps, (256,), generator=g)
    ev = torch.randn(256, cfg.latent, generator=g)
    valid_loader = DataLoader(TensorDataset(xv, tv, ev), 128)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(model, optimizer, train_loader, valid_loader)

    for epoch in range(cfg.epochs):
        model.train()
        seen = 0.0
        for (x,) in train_loader:
            noise = torch.randn_like(x)
            t = torch.randint(cfg.timesteps, (len(x),))
            noisy = noiser.add(x, noise, t).to(weight_dtype)
            loss = F.mse_loss(model(noisy, t).float(), noise)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            seen += loss.item()
        model.eval()
        with torch.no_grad():
            errors = [F.mse_loss(model(noiser.add(x, e, t).to(weight_dtype), t).float(), e) for x, t, e in valid_loader]
        accelerator.print(f"epoch {epoch} train {seen / len(train_loader):.4f} valid {torch.stack(errors).mean():.4f}")


if __name__ == "__main__":
    main(TrainConfig())
