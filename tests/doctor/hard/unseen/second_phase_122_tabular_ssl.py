# kind: second_phase
# expect: silent-partial-load
# why: The checkpoint holds the keys of the AveragedModel ("module.encoder..."), the classifier's keys begin with "encoder.";
#   the filter keeps no entry, the model's own values are loaded back and fine-tuning starts from random weights.
"""Masked-feature pretraining on unlabelled rows, then fine-tuning on the few labelled ones."""
import argparse
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("tabular")


@dataclass
class Config:
    features: int = 20
    width: int = 80
    depth: int = 2
    mask: float = 0.3
    pretrain_epochs: int = 8
    tune_epochs: int = 25
    batch: int = 64
    seed: int = 19


class Encoder(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.stem = nn.Linear(2 * cfg.features, cfg.width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.Linear(cfg.width, cfg.width))
            for _ in range(cfg.depth)
        )
        self.norm = nn.LayerNorm(cfg.width)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        h = self.stem(torch.cat([x.masked_fill(missing, 0.0), missing.float()], -1))
        for block in self.blocks:
            h = h + block(h)
        return self.norm(h)


class MaskedModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.encoder = Encoder(cfg)
        self.decoder = nn.Linear(cfg.width, cfg.features)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        return self.decoder(self.encoder(x, missing))


class Classifier(nn.Module):
    def __init__(self, cfg: Config, classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(cfg)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(cfg.width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x, torch.zeros_like(x, dtype=torch.bool)))


def rows(n: int, cfg: Config, seed: int) -> tuple[Tensor, Tensor]:
    rule = torch.Generator().manual_seed(123)
    mix = torch.randn(5, cfg.features, generator=rule)
    cut = torch.randn(5, 4, generator=rule)
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 5, generator=g)
    x = torch.tanh(z @ mix) + 0.3 * torch.randn(n, cfg.features, generator=g)
    y = (torch.sin(1.5 * z) @ cut + 0.2 * torch.randn(n, 4, generator=g)).argmax(-1)
    return x, y


def pretrain(cfg: Config, x: Tensor, valid: Tensor, path: Path) -> None:
    model = MaskedModel(cfg)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loader = DataLoader(TensorDataset(x), cfg.batch, shuffle=True, drop_last=True)
    fixed = torch.rand(valid.shape, generator=torch.Generator().manual_seed(0)) < cfg.mask
    for epoch in range(cfg.pretrain_epochs):
        total = 0.0
        for (batch,) in loader:
            missing = torch.rand(batch.shape) < cfg.mask
            loss = F.mse_loss(model(batch, missing)[missing], batch[missing])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            averaged.update_parameters(model)
            total += loss.item()
        averaged.eval()
        with torch.no_grad():
            error = F.mse_loss(averaged(valid, fixed)[fixed], valid[fixed]).item()
        log.info("pretrain epoch %d loss %.4f valid %.4f", epoch, total / len(loader), error)
    torch.save({"model": averaged.state_dict(), "epoch": cfg.pretrain_epochs}, path)


def load_pretrained(model: nn.Module, path: Path) -> None:
    """Take every tensor of the checkpoint that fits; the head is new and keeps its initialisation."""
    checkpoint = torch.load(path, weights_only=True)
    state = model.state_dict()
    state.update({k: v for k, v in checkpoint["model"].items() if k in state and v.shape == state[k].shape})
    model.load_state_dict(state)
    log.info("initialised from %s, epoch %d", path.name, checkpoint["epoch"])


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    result = (model(x).argmax(-1) == y).float().mean().item()
    model.train()
    return result


def tune(cfg: Config, path: Path, x: Tensor, y: Tensor, valid_x: Tensor, valid_y: Tensor) -> None:
    model = Classifier(cfg, classes=4)
    load_pretrained(model, path)
    optimizer = torch.optim.AdamW(
        [{"params": model.encoder.parameters(), "lr": 5e-4}, {"params": model.head.parameters(), "lr": 2e-3}], weight_decay=0.01
    )
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True, drop_last=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=cfg.tune_epochs * len(loader))
    for epoch in range(1, cfg.tune_epochs + 1):
        total = 0.0
        for features, labels in loader:
            loss = F.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        if epoch % 5 == 0:
            log.info("tune epoch %d loss %.4f valid acc %.3f", epoch, total / len(loader), accuracy(model, valid_x, valid_y))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--labelled", type=int, default=480)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    cfg = Config()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    unlabelled, valid, labelled = rows(5120, cfg, 1)[0], rows(800, cfg, 2), rows(args.labelled, cfg, 3)
    mean, std = unlabelled.mean(0), unlabelled.std(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.pt"
        pretrain(cfg, (unlabelled - mean) / std, (valid[0] - mean) / std, path)
        tune(cfg, path, (labelled[0] - mean) / std, labelled[1], (valid[0] - mean) / std, valid[1])


if __name__ == "__main__":
    main()
