# kind: numbers
# expect: update-below-precision
# also: vanishing-updates
# why: In the adaptation phase the weights themselves are bfloat16 and Lion moves each by 2e-5; for weights above about 0.01
#   that is below half a unit in the last place, so nearly all updates and all of the decay are rounded away.
"""Keyword spotting: train on studio recordings in float32, adapt to a far-field microphone in bfloat16."""
import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Phase:
    name: str
    epochs: int
    lr: float
    dtype: torch.dtype


class Lion(torch.optim.Optimizer):
    """Sign of an interpolated momentum, with decoupled weight decay."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p, dtype=torch.float32)
                grad, m = p.grad.float(), state["momentum"]
                update = torch.lerp(grad, m, beta1).sign_().to(p.dtype)
                p.mul_(1.0 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"])
                m.lerp_(grad, 1.0 - beta2)


class KeywordNet(nn.Module):
    def __init__(self, mels: int, width: int, classes: int) -> None:
        super().__init__()
        self.frames = nn.Linear(mels, width)
        self.time = nn.Conv1d(width, width, 5, padding=2, groups=4)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.frames(x))
        x = x + F.gelu(self.time(x.transpose(1, 2)).transpose(1, 2))
        x = F.gelu(self.mix(self.norm(x)))
        return self.head(x.mean(1))


def recordings(n: int, seed: int, far_field: bool, mels: int = 20, frames: int = 30, classes: int = 10) -> TensorDataset:
    words = torch.Generator().manual_seed(400)
    track = torch.cumsum(torch.randn(classes, frames, mels, generator=words), 1) / frames**0.5
    colour = torch.randn(mels, mels, generator=words) / mels**0.5
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    x = track[labels] + 2.5 * torch.randn(n, frames, mels, generator=g)
    if far_field:
        x = 0.4 * x + 1.0 * x @ colour + 0.4 * torch.roll(x, 3, dims=1)
    x = (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True)
    return TensorDataset(x, labels)


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset, dtype: torch.dtype) -> tuple[float, float]:
    model.eval()
    x, y = data.tensors
    logits = model(x.to(dtype)).float()
    model.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(-1) == y).float().mean().item()


class Trainer:
    def __init__(self, model: nn.Module, batch_size: int) -> None:
        self.model, self.batch_size = model, batch_size

    def run(self, phase: Phase, train: TensorDataset, valid: TensorDataset, make_optimizer) -> None:
        self.model.to(phase.dtype)
        optimizer = make_optimizer(self.model.parameters(), lr=phase.lr)
        loader = DataLoader(train, self.batch_size, shuffle=True, drop_last=True)
        print(f"{phase.name}: before training valid loss %.4f acc %.3f" % evaluate(self.model, valid, phase.dtype))
        for epoch in range(phase.epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x.to(phase.dtype)).float(), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            valid_loss, acc = evaluate(self.model, valid, phase.dtype)
            print(f"{phase.name} epoch {epoch} loss {total / len(loader):.4f} valid loss {valid_loss:.4f} acc {acc:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--adapt-lr", type=float, default=2e-5)
    args = parser.parse_args()
    torch.manual_seed(13)
    torch.set_num_threads(1)

    trainer = Trainer(KeywordNet(20, args.width, 10), args.batch_size)
    studio = Phase("studio", 4, 1e-3, torch.float32)
    trainer.run(
        studio,
        recordings(2400, 1, far_field=False),
        recordings(600, 2, far_field=False),
        lambda params, lr: torch.optim.AdamW(params, lr=lr, weight_decay=0.01),
    )
    # Lion wants a learning rate three to ten times below AdamW's, and adaptation one well below that of training.
    adapt = Phase("far field", 4, args.adapt_lr, torch.bfloat16)
    trainer.run(
        adapt,
        recordings(1920, 3, far_field=True),
        recordings(600, 4, far_field=True),
        lambda params, lr: Lion(params, lr=lr, weight_decay=0.1),
    )


if __name__ == "__main__":
    main()
