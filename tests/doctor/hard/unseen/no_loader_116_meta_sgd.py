# kind: no_loader
# expect: nothing
# why: Might be accused of symmetric-weights, dead-parameter or missing-zero-grad: the learned inner rates begin equal on purpose, the module itself is only run through functional_call, and evaluation adapts with torch.func gradients under no_grad.
"""Meta-SGD on sine waves: initial weights and per-parameter inner learning rates, learned through the inner steps."""
import argparse
import math

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


class TaskStream:
    """An endless stream of sine regression tasks, each with a support and a query set."""

    def __init__(self, seed, shots=10, queries=20):
        self.gen = torch.Generator().manual_seed(seed)
        self.shots, self.queries = shots, queries

    def uniform(self, low, high, *shape):
        return torch.rand(*shape, generator=self.gen) * (high - low) + low

    def __call__(self, tasks):
        amplitude, phase = self.uniform(0.5, 2.0, tasks, 1, 1), self.uniform(0, math.pi, tasks, 1, 1)
        x = self.uniform(-math.sqrt(3), math.sqrt(3), tasks, self.shots + self.queries, 1)
        y = amplitude * torch.sin(2.5 * x + phase)
        return {"xs": x[:, : self.shots], "ys": y[:, : self.shots], "xq": x[:, self.shots :], "yq": y[:, self.shots :]}


class MetaLearner(nn.Module):
    def __init__(self, width=40, inner_lr=0.05):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        start = math.log(inner_lr)
        self.log_rates = nn.ParameterList([nn.Parameter(torch.full_like(p, start)) for p in self.net.parameters()])

    def loss(self, weights, x, y):
        return (functional_call(self.net, weights, (x,)) - y).pow(2).mean()

    def adapt(self, weights, rates, x, y, steps):
        for _ in range(steps):
            slopes = grad(self.loss)(weights, x, y)
            weights = {k: w - rates[k] * slopes[k] for k, w in weights.items()}
        return weights

    def query_losses(self, batch, steps):
        """One loss per task: adapt on its support set, measure on its query set."""
        weights = dict(self.net.named_parameters())
        rates = {k: r.exp() for k, r in zip(weights, self.log_rates)}

        def one_task(xs, ys, xq, yq):
            return self.loss(self.adapt(weights, rates, xs, ys, steps), xq, yq)

        return vmap(one_task)(batch["xs"], batch["ys"], batch["xq"], batch["yq"])


def evaluate(learner, batches, steps):
    learner.eval()
    with torch.no_grad():
        losses = torch.cat([learner.query_losses(b, steps) for b in batches])
    learner.train()
    return losses.mean().item()


def warm_cosine(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--inner-steps", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(12)

    learner = MetaLearner()
    optimizer = torch.optim.Adam(learner.parameters(), lr=args.lr)
    train_tasks = TaskStream(seed=1)
    valid_stream, test_stream = TaskStream(seed=2), TaskStream(seed=3)
    valid, test = [valid_stream(64) for _ in range(3)], [test_stream(64) for _ in range(5)]

    best, kept = float("inf"), None
    for it in range(args.iterations):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * warm_cosine(it, 50, args.iterations)
        loss = learner.query_losses(train_tasks(args.tasks), args.inner_steps).mean()
        for p in learner.parameters():
            p.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 5.0)
        optimizer.step()
        if (it + 1) % 100 == 0:
            score = evaluate(learner, valid, args.inner_steps)
            print(f"iteration {it + 1}  query loss {loss.item():.4f}  validation {score:.4f}")
            if score < best:
                best, kept = score, {k: v.clone() for k, v in learner.state_dict().items()}
    learner.load_state_dict(kept)
    print(f"test: before adapting {evaluate(learner, test, 0):.4f}, after {evaluate(learner, test, args.inner_steps):.4f}")


if __name__ == "__main__":
    main()
