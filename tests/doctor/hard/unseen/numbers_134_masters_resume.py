# kind: numbers
# expect: nothing
# why: The model holds bfloat16 weights, but the updates go to float32 masters inside the own optimizer, which are rounded into the model after each step, so nothing is lost. The run is interrupted once and goes on from a checkpoint with model, masters, moments, schedule and data generator restored.
"""Low-memory training of a fault classifier with float32 master weights, interrupted and resumed."""
from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, LR = 14, 64, 2e-3


class MasterAdamW(torch.optim.Optimizer):
    """AdamW whose state keeps a float32 copy of every low-precision parameter."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float, max_norm: float) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "max_norm": max_norm})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            pairs = [(p, p.grad.float()) for p in group["params"] if p.grad is not None]
            norm = torch.stack([g.norm() for _, g in pairs]).norm()
            scale = min(1.0, group["max_norm"] / (norm.item() + 1e-6))
            for p, g in pairs:
                self._update(p, g * scale, group)
        return loss

    def _update(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["count"] = 0
            state["bits"] = {"master": p.float().clone(), "m": torch.zeros_like(g), "v": torch.zeros_like(g)}
        state["count"] += 1
        master, m, v = state["bits"]["master"], state["bits"]["m"], state["bits"]["v"]
        m.lerp_(g, 0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        m_hat = m / (1 - 0.9 ** state["count"])
        v_hat = v / (1 - 0.99 ** state["count"])
        master.mul_(1 - group["lr"] * group["decay"]).addcdiv_(m_hat, v_hat.sqrt() + 1e-8, value=-group["lr"])
        p.copy_(master)

    def exact_state(self) -> dict[str, Any]:
        order = [p for group in self.param_groups for p in group["params"]]
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        return {"groups": groups, "state": [self.state[p] for p in order]}

    def load_exact_state(self, saved: dict[str, Any]) -> None:
        """Optimizer.load_state_dict would round the masters to the type of the parameters."""
        order = [p for group in self.param_groups for p in group["params"]]
        for p, state in zip(order, saved["state"], strict=True):
            self.state[p] = state
        for group, kept in zip(self.param_groups, saved["groups"], strict=True):
            group.update(kept)


class FaultNet(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, 96)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 96)) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(96), nn.Linear(96, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.out(self.norm(h))


def faults(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    label = torch.randint(0, 5, (n,), generator=gen)
    centres = torch.randn(5, 20, generator=torch.Generator().manual_seed(1))
    x = 0.6 * centres[label] + torch.randn(n, 20, generator=gen)
    x[:, :5] += 0.8 * x[:, 5:10] * torch.where(label == 2, 1.0, -1.0)[:, None]
    return x, label


class Run:
    def __init__(self, train: TensorDataset, valid: TensorDataset) -> None:
        self.draw = torch.Generator().manual_seed(100)
        self.loader = DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True, generator=self.draw)
        self.valid = DataLoader(valid, batch_size=200)
        self.model = FaultNet(20, 5).to(torch.bfloat16)
        self.opt = MasterAdamW(self.model.parameters(), lr=LR, decay=0.05, max_norm=1.0)
        self.epoch = 0

    def lr_at(self, position: float) -> float:
        return LR * min(1.0, position + 0.1) * 0.5 * (1 + math.cos(math.pi * position / EPOCHS))

    def train_until(self, last: int) -> None:
        while self.epoch < last:
            self.model.train()
            total = 0.0
            for i, (x, y) in enumerate(self.loader):
                for group in self.opt.param_groups:
                    group["lr"] = self.lr_at(self.epoch + i / len(self.loader))
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = self.model(x.to(torch.bfloat16))
                loss = F.cross_entropy(logits.float(), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item()
            self.epoch += 1
            print(f"epoch {self.epoch:2d} loss {total / len(self.loader):.4f} accuracy {self.accuracy():.3f}")

    @torch.no_grad()
    def accuracy(self) -> float:
        self.model.eval()
        hits = [self.model(x.to(torch.bfloat16)).argmax(1) == y for x, y in self.valid]
        return torch.cat(hits).float().mean().item()

    def save(self) -> bytes:
        parts = {"model": self.model.state_dict(), "opt": self.opt.exact_state(), "draw": self.draw.get_state(), "epoch": self.epoch}
        buffer = io.BytesIO()
        torch.save(parts, buffer)
        return buffer.getvalue()

    def load(self, raw: bytes) -> None:
        parts = torch.load(io.BytesIO(raw), weights_only=True)
        self.model.load_state_dict(parts["model"])
        self.opt.load_exact_state(parts["opt"])
        self.draw.set_state(parts["draw"])
        self.epoch = parts["epoch"]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(53)
    gen = torch.Generator().manual_seed(53)
    (x, y), (x_valid, y_valid) = faults(2600, gen), faults(600, gen)
    mean, std = x.mean(0), x.std(0)
    train, valid = TensorDataset((x - mean) / std, y), TensorDataset((x_valid - mean) / std, y_valid)
    first = Run(train, valid)
    first.train_until(EPOCHS // 2)
    raw = first.save()
    del first
    second = Run(train, valid)
    second.load(raw)
    print(f"resumed at epoch {second.epoch}, accuracy {second.accuracy():.3f}")
    second.train_until(EPOCHS)


if __name__ == "__main__":
    main()
