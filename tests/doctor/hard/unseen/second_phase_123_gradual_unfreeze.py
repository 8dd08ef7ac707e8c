# kind: second_phase
# expect: nothing
# why: The checkpoint is loaded with strict=False, but only the new head is missing (and that is checked); frozen stages stay in
#   eval mode, the last stage is unfrozen at step 150 with add_param_group, and the second optimizer serves a new phase.
"""Transfer of a small image classifier: new head first, then the last stage too."""
import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    size: int = 16
    width: int = 16
    batch: int = 32
    source_epochs: int = 4
    target_epochs: int = 8
    unfreeze_at: int = 150
    head_lr: float = 2e-3
    stage_lr: float = 3e-4


def stage(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())


class Classifier(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList([stage(1, width), stage(width, 2 * width), stage(2 * width, 4 * width)])
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        for s in self.stages:
            x = s(x)
        return self.head(x.mean((2, 3)))

    def freeze(self, module: nn.Module, frozen: bool = True) -> None:
        module.requires_grad_(not frozen)
        module.train(not frozen)

    def train(self, mode: bool = True) -> "Classifier":
        super().train(mode)
        for s in self.stages:
            if not any(p.requires_grad for p in s.parameters()):
                s.eval()
        return self


def textures(n: int, classes: int, rule: int, seed: int, size: int) -> TensorDataset:
    shapes = torch.Generator().manual_seed(rule)
    kernels = torch.randn(classes, 1, 5, 5, generator=shapes)
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    noise = torch.randn(1, n, size, size, generator=g)
    images = F.conv2d(noise, kernels[labels], padding=2, groups=n).transpose(0, 1)
    images = images + 3.0 * torch.randn(images.shape, generator=g)
    return TensorDataset((images - images.mean()) / images.std(), labels)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> tuple[float, float]:
    model.eval()
    loss, right, count = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += int((logits.argmax(-1) == y).sum())
        count += len(y)
    model.train()
    return loss / count, right / count


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_source(cfg: Config, path: Path) -> None:
    model = Classifier(cfg.width, 8)
    train = DataLoader(textures(2400, 8, 1, 10, cfg.size), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(textures(600, 8, 1, 11, cfg.size), 200)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for epoch in range(cfg.source_epochs):
        loss = sum(train_step(model, optimizer, x, y) for x, y in train) / len(train)
        print(f"source epoch {epoch} loss {loss:.4f} valid %.4f acc %.3f" % evaluate(model, valid))
    torch.save(model.state_dict(), path)


def target_model(cfg: Config, path: Path) -> Classifier:
    model = Classifier(cfg.width, 4)
    state = {k: v for k, v in torch.load(path, weights_only=True).items() if not k.startswith("head.")}
    result = model.load_state_dict(state, strict=False)
    if set(result.missing_keys) != {"head.weight", "head.bias"} or result.unexpected_keys:
        raise RuntimeError(f"checkpoint does not fit: {result}")
    for s in model.stages:
        model.freeze(s)
    return model


def train_target(cfg: Config, path: Path) -> None:
    model = target_model(cfg, path)
    train = DataLoader(textures(1280, 4, 2, 20, cfg.size), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(textures(600, 4, 2, 21, cfg.size), 200)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=cfg.head_lr, weight_decay=0.01)
    best, kept = float("inf"), None
    step = 0
    for epoch in range(cfg.target_epochs):
        total = 0.0
        for x, y in train:
            if step == cfg.unfreeze_at:
                model.freeze(model.stages[-1], False)
                optimizer.add_param_group({"params": list(model.stages[-1].parameters()), "lr": cfg.stage_lr})
                print(f"step {step}: last stage trains too")
            total += train_step(model, optimizer, x, y)
            step += 1
        loss, acc = evaluate(model, valid)
        if loss < best:
            best, kept = loss, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"target epoch {epoch} loss {total / len(train):.4f} valid {loss:.4f} acc {acc:.3f}")
    assert kept is not None
    model.load_state_dict(kept)
    print("best weights: valid %.4f acc %.3f" % evaluate(model, valid))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unfreeze-at", type=int, default=Config.unfreeze_at)
    cfg = Config(unfreeze_at=parser.parse_args().unfreeze_at)
    torch.manual_seed(15)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.pt"
        train_source(cfg, path)
        train_target(cfg, path)


if __name__ == "__main__":
    main()
