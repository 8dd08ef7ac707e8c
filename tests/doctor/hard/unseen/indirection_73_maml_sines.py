# kind: behind indirection
# expect: nothing
# why: meta-learning by functional_call with learned inner rates; graphs are kept inside one meta-step only, and evaluation needs gradients because it adapts to each new task.
"""MAML on sine curves: fast weights by torch.func, learned step sizes per tensor."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

torch.set_num_threads(1)
torch.manual_seed(17)


class Tasks:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self, shots, queries):
        amp = 0.5 + 2.5 * torch.rand((), generator=self.gen)
        phase = torch.pi * torch.rand((), generator=self.gen)
        x = 10 * torch.rand(shots + queries, 1, generator=self.gen) - 5
        y = amp * torch.sin(x - phase)
        return (x[:shots], y[:shots]), (x[shots:], y[shots:])


class Regressor(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)


class Meta(nn.Module):
    def __init__(self, base, inner_lr=0.02):
        super().__init__()
        self.base = base
        self.log_rates = nn.ParameterDict({
            name.replace(".", "_"): nn.Parameter(torch.tensor(inner_lr).log())
            for name, _ in base.named_parameters()})

    def loss(self, weights, batch):
        return F.mse_loss(functional_call(self.base, weights, (batch[0],)), batch[1])

    def adapt(self, support, steps, create_graph):
        weights = dict(self.base.named_parameters())
        for _ in range(steps):
            grads = torch.autograd.grad(self.loss(weights, support), list(weights.values()),
                                        create_graph=create_graph)
            weights = {name: w - self.log_rates[name.replace(".", "_")].exp() * g
                       for (name, w), g in zip(weights.items(), grads)}
        return weights


def evaluate(meta, seed, n_tasks=60, steps=5):
    tasks, before, after = Tasks(seed), 0.0, 0.0
    for _ in range(n_tasks):
        support, query = tasks.draw(10, 40)
        start = dict(meta.base.named_parameters())
        fast = meta.adapt(support, steps, create_graph=False)
        with torch.no_grad():
            before += meta.loss(start, query).item() / n_tasks
            after += meta.loss(fast, query).item() / n_tasks
    return before, after


def main():
    meta = Meta(Regressor())
    opt = torch.optim.Adam(meta.parameters(), lr=3e-3)
    tasks, per_step = Tasks(1), 4
    for step in range(1, 401):
        opt.zero_grad()
        total = 0.0
        for _ in range(per_step):
            support, query = tasks.draw(10, 20)
            fast = meta.adapt(support, steps=1, create_graph=True)
            loss = meta.loss(fast, query) / per_step
            loss.backward()
            total += loss.item()
        opt.step()
        if step % 100 == 0:
            before, after = evaluate(meta, seed=500)
            print(f"meta step {step:4d}  query {total:.3f}  new tasks: {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
