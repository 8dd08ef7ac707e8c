# kind: second_phase
# expect: nothing
# why: The frozen encoder stays in eval mode through an overridden train(), is given to the optimizer as a further group when it is
#      unfrozen, pretraining and fine-tuning use different recordings, and the best weights are clones.
"""Human activity from a wrist accelerometer: denoising pretraining, then a classifier with gradual unfreezing."""
import argparse
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    unlabelled: int = 2000
    labelled: int = 700
    valid: int = 500
    length: int = 64
    activities: int = 6
    batch: int = 50
    pretrain_epochs: int = 6
    finetune_steps: int = 420
    unfreeze_at: int = 210
    seed: int = 23


def record(n: int, cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    activity = torch.randint(cfg.activities, (n,), generator=gen)
    a = activity.float()[:, None, None]
    t = torch.linspace(0, 1, cfg.length)[None, None]
    phase = 2 * math.pi * torch.rand(n, 1, 1, generator=gen)
    axis = torch.arange(3).float()[None, :, None]
    swing = torch.sin(2 * math.pi * (1.5 + 0.6 * a) * t + phase + 0.7 * axis)
    impact = (0.15 * a) * torch.sin(2 * math.pi * (6 + a) * t + phase).clamp(min=0)
    tilt = 0.5 * torch.randn(n, 3, 1, generator=gen)
    return swing + impact + tilt + 0.5 * torch.randn(n, 3, cfg.length, generator=gen), activity


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, 24, 7, stride=2, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Denoiser(nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(48, 24, 4, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose1d(24, 3, 4, stride=2, padding=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, classes))
        self.frozen = False

    def freeze(self, frozen: bool) -> None:
        self.frozen = frozen
        self.encoder.requires_grad_(not frozen)

    def train(self, mode: bool = True) -> "Classifier":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def hide(x: Tensor, gen: torch.Generator) -> Tensor:
    keep = torch.rand(len(x), 1, x.shape[2] // 8, generator=gen) > 0.25
    return x * keep.repeat_interleave(8, dim=2)


def pretrain(model: Denoiser, x: Tensor, vx: Tensor, cfg: Config, gen: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.pretrain_epochs)
    hidden_valid = hide(vx, gen)
    for epoch in range(cfg.pretrain_epochs):
        model.train()
        for rows in torch.randperm(len(x), generator=gen).split(cfg.batch):
            loss = F.mse_loss(model(hide(x[rows], gen)), x[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            print(f"pretrain {epoch} loss {loss.item():.4f} valid {F.mse_loss(model(hidden_valid), vx).item():.4f}")
    optimizer.zero_grad()


@torch.no_grad()
def accuracy(model: Classifier, x: Tensor, y: Tensor) -> float:
    model.eval()
    return float((model(x).argmax(1) == y).float().mean())


def finetune(model: Classifier, train: tuple[Tensor, Tensor], valid: tuple[Tensor, Tensor], cfg: Config, gen: torch.Generator) -> None:
    x, y = train
    model.freeze(True)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=2e-3, weight_decay=1e-2)
    best, best_weights, step = -1.0, None, 0
    while step < cfg.finetune_steps:
        for rows in torch.randperm(len(x), generator=gen).split(cfg.batch):
            if step == cfg.unfreeze_at:
                model.freeze(False)
                optimizer.add_param_group({"params": list(model.encoder.parameters()), "lr": 3e-4})
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            step += 1
            if step % 42 == 0:
                score = accuracy(model, *valid)
                print(f"finetune {step:3d} loss {loss.item():.4f} valid acc {score:.3f}")
                if score > best:
                    best, best_weights = score, {k: v.clone() for k, v in model.state_dict().items()}
            if step == cfg.finetune_steps:
                break
    assert best_weights is not None
    model.load_state_dict(best_weights)
    print(f"best valid acc {accuracy(model, *valid):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unfreeze-at", type=int, default=Config.unfreeze_at)
    cfg = Config(unfreeze_at=parser.parse_args().unfreeze_at)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    (pool, _), (x, y), (vx, vy) = (record(n, cfg, gen) for n in (cfg.unlabelled, cfg.labelled, cfg.valid))
    mean, std = pool.mean((0, 2), keepdim=True), pool.std((0, 2), keepdim=True)
    pool, x, vx = (pool - mean) / std, (x - mean) / std, (vx - mean) / std
    encoder = Encoder()
    pretrain(Denoiser(encoder), pool, vx, cfg, gen)
    finetune(Classifier(encoder, cfg.activities), (x, y), (vx, vy), cfg, gen)


if __name__ == "__main__":
    main()
