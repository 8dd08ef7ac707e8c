# kind: several losses and optimizers
# expect: nothing
# like: graph-retained
# why: MAML differentiates through the inner step (create_graph), and adaptation before evaluation needs gradients;
#      every graph is used once by the outer backward and freed, the query of the evaluation runs under no_grad.
"""Second-order MAML over tide gauges with their own amplitude and phase."""
import argparse
import math

import torch
from torch import nn
from torch.func import functional_call


class GaugeTasks:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self, shots):
        amp = 0.5 + torch.rand(1, generator=self.gen)
        phase = math.pi * torch.rand(1, generator=self.gen)
        x = torch.rand(2 * shots, 1, generator=self.gen) * 2 - 1
        y = amp * torch.sin(3 * x + phase)
        return (x[:shots], y[:shots]), (x[shots:], y[shots:])


class Curve(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x)


class Meta:
    def __init__(self, model, inner_lr, inner_steps):
        self.model, self.inner_lr, self.inner_steps = model, inner_lr, inner_steps
        self.criterion = nn.MSELoss()

    def adapt(self, support, second_order):
        x, y = support
        fast = dict(self.model.named_parameters())
        for _ in range(self.inner_steps):
            loss = self.criterion(functional_call(self.model, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=second_order)
            fast = {k: v - self.inner_lr * g for (k, v), g in zip(fast.items(), grads)}
        return fast

    def query_loss(self, fast, query):
        return self.criterion(functional_call(self.model, fast, (query[0],)), query[1])


def evaluate(meta, tasks, count, shots):
    meta.model.eval()
    total = 0.0
    for _ in range(count):
        support, query = tasks.sample(shots)
        fast = {k: v.detach() for k, v in meta.adapt(support, second_order=False).items()}
        with torch.no_grad():
            total += meta.query_loss(fast, query).item()
    meta.model.train()
    return total / count


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=450)
    ap.add_argument("--tasks", type=int, default=4)
    ap.add_argument("--shots", type=int, default=10)
    ap.add_argument("--inner-lr", type=float, default=0.05)
    ap.add_argument("--inner-steps", type=int, default=2)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(13)
    meta = Meta(Curve(), args.inner_lr, args.inner_steps)
    outer = torch.optim.Adam(meta.model.parameters(), lr=2e-3)
    train_tasks = GaugeTasks(1000)
    print(f"before: {evaluate(meta, GaugeTasks(2000), 40, args.shots):.4f}")
    for it in range(1, args.iterations + 1):
        losses = []
        for _ in range(args.tasks):
            support, query = train_tasks.sample(args.shots)
            losses.append(meta.query_loss(meta.adapt(support, second_order=True), query))
        loss = torch.stack(losses).mean()
        outer.zero_grad()
        loss.backward()
        outer.step()
        if it % 75 == 0:
            print(f"iter {it:4d}  meta loss {loss.item():.4f}  "
                  f"held-out gauges {evaluate(meta, GaugeTasks(2000), 40, args.shots):.4f}")


if __name__ == "__main__":
    main()
