# kind: several
# expect: nothing
# why: might be accused of kl-on-probabilities, foreign-gradients and one-cycle-max-lr; both arguments of the KL divergence are log-probabilities with log_target=True, teacher and student are trained one after the other with an optimizer each, and max_lr is 25 times the rate the optimizer begins with.
"""A quantised student learns from a wide teacher; rounding passes gradients straight through."""
import argparse
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


class QuantLinear(nn.Linear):
    """Linear layer whose weights are rounded to a few bits in the forward pass."""

    def __init__(self, n_in: int, n_out: int, bits: int = 4) -> None:
        super().__init__(n_in, n_out)
        self.levels = 2 ** (bits - 1) - 1

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight.detach().abs().amax(dim=1, keepdim=True) / self.levels
        return F.linear(x, RoundThrough.apply(self.weight / scale) * scale, self.bias)


def clusters(n: int, centres: Tensor, warp: Tensor, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.randint(0, len(centres) // 2, (n,), generator=gen)
    half = torch.randint(0, 2, (n,), generator=gen)
    x = centres[2 * y + half] + 0.8 * torch.randn(n, centres.shape[1], generator=gen)
    return torch.tanh(x @ warp) + 0.1 * x, y


Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def fit(model: nn.Module, loader: DataLoader, loss_fn: Loss, epochs: int, lr: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 25, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total, seen = 0.0, 0
        for x, y in loader:
            loss = loss_fn(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total, seen = total + float(loss.detach()) * len(y), seen + len(y)
        if epoch % 4 == 3:
            print(f"  epoch {epoch + 1} loss {total / seen:.4f}")


def hard_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def distillation(teacher: nn.Module, temperature: float, alpha: float) -> Loss:
    def loss_fn(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x)
        with torch.no_grad():
            soft = F.log_softmax(teacher(x) / temperature, dim=1)
        kl = F.kl_div(F.log_softmax(logits / temperature, dim=1), soft, reduction="batchmean", log_target=True)
        return alpha * temperature ** 2 * kl + (1 - alpha) * F.cross_entropy(logits, y)

    return loss_fn


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    return (model(x).argmax(dim=1) == y).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--temperature", type=float, default=3.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    centres, warp = 0.9 * torch.randn(16, 20, generator=gen), torch.randn(20, 20, generator=gen) / 4
    train, valid, test = (clusters(n, centres, warp, gen) for n in (4000, 800, 1000))
    mean, std = train[0].mean(0), train[0].std(0)
    train, valid, test = (((x - mean) / std, y) for x, y in (train, valid, test))
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)

    teacher = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Dropout(0.2),
                            nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 8))
    print("teacher")
    fit(teacher, loader, hard_loss, epochs=12, lr=3e-3)
    teacher.eval().requires_grad_(False)

    student = nn.Sequential(QuantLinear(20, 32), nn.ReLU(), QuantLinear(32, 8))
    print("student")
    fit(student, loader, distillation(teacher, args.temperature, args.alpha), epochs=16, lr=5e-3)
    print(f"valid teacher {accuracy(teacher, *valid):.3f} student {accuracy(student, *valid):.3f}")
    print(f"test teacher {accuracy(teacher, *test):.3f} student {accuracy(student, *test):.3f}")


if __name__ == "__main__":
    main()
