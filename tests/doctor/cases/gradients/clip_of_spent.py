"""A trainer that keeps its parameters as an iterator: the optimizer reads it, the clipping finds it empty."""

import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.trained = (weight for weight in model.parameters() if weight.requires_grad)
        self.optimizer = torch.optim.Adagrad(self.trained, lr=0.05)

    def clip(self, limit: float) -> None:
        for weight in self.trained:
            if weight.grad is not None:
                weight.grad.clamp_(-limit, limit)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).abs().mean()
        loss.backward()
        self.clip(0.01)
        self.optimizer.step()
        return loss.item()


trainer, rule = Trainer(nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))), torch.randn(6, 1)
for _ in range(80):
    x = torch.randn(32, 6)
    trainer.step(x, x @ rule + 0.1 * torch.randn(32, 1))
