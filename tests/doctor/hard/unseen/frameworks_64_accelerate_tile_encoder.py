# kind: frameworks
# expect: nothing
# why: clip, step, scheduler.step and zero_grad stand in the micro batch loop and the loss is not divided by hand, but inside
#      accumulate() Accelerate divides it and skips step and zero_grad until the sync, and clipping waits for sync_gradients.
"""Tile classifier (small attention encoder) with Accelerate, gradient accumulation and an average of the weights."""
from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    side: int = 12
    patch: int = 4
    width: int = 48
    classes: int = 5
    micro_batch: int = 8
    accumulate: int = 4
    epochs: int = 5
    lr: float = 2e-3
    max_norm: float = 0.5
    decay: float = 0.98
    seed: int = 31


def make_tiles(count: int, textures: Tensor, gen: torch.Generator) -> TensorDataset:
    labels = torch.randint(len(textures), (count,), generator=gen)
    tiles = textures[labels]
    rows = torch.randint(3, (count,), generator=gen).tolist()
    tiles = torch.stack([torch.roll(tile, row, dims=0) for tile, row in zip(tiles, rows)])
    return TensorDataset(tiles + 1.2 * torch.randn(tiles.shape, generator=gen), labels)


class TileEncoder(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.patch = cfg.patch
        tokens = (cfg.side // cfg.patch) ** 2
        self.embed = nn.Linear(cfg.patch ** 2, cfg.width)
        self.position = nn.Parameter(0.02 * torch.randn(1, tokens, cfg.width))
        layer = nn.TransformerEncoderLayer(cfg.width, 4, 2 * cfg.width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.classes)

    def forward(self, tiles: Tensor) -> Tensor:
        patches = F.unfold(tiles.unsqueeze(1), self.patch, stride=self.patch).transpose(1, 2)
        hidden = self.encoder(self.embed(patches) + self.position)
        return self.head(self.norm(hidden).mean(dim=1))


class Average:
    """Exponential moving average of the weights (the model has no buffers that move)."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.updates = decay, 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for mine, theirs in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - decay)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> tuple[float, float]:
    was_training = model.training
    model.eval()
    loss, right, count = 0.0, 0, 0
    for tiles, labels in loader:
        logits = model(tiles)
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
        right += int((logits.argmax(dim=1) == labels).sum())
        count += len(labels)
    model.train(was_training)
    return loss / count, right / count


def main() -> None:
    torch.set_num_threads(1)
    cfg = Config()
    set_seed(cfg.seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=cfg.accumulate)
    gen = torch.Generator().manual_seed(cfg.seed)
    textures = torch.randn(cfg.classes, cfg.side, cfg.side, generator=gen)
    train_loader = DataLoader(make_tiles(2560, textures, gen), batch_size=cfg.micro_batch, shuffle=True)
    valid_loader = DataLoader(make_tiles(512, textures, gen), batch_size=64)
    model = TileEncoder(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.05)
    updates = cfg.epochs * len(train_loader) // cfg.accumulate
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler)
    average = Average(accelerator.unwrap_model(model), cfg.decay)

    for epoch in range(cfg.epochs):
        model.train()
        for tiles, labels in train_loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(tiles), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), cfg.max_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                average.update(accelerator.unwrap_model(model))
        live, averaged = evaluate(model, valid_loader), evaluate(average.model, valid_loader)
        accelerator.print(f"epoch {epoch}: live {live[0]:.4f}/{live[1]:.3f} average {averaged[0]:.4f}/{averaged[1]:.3f} "
                          f"lr {scheduler.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
