# kind: behind indirection
# expect: missing-zero-grad
# why: the own optimizer clears the tables' gradients with p.grad[rows].zero_(), which zeroes a copy made by advanced indexing; the gradients of the user and item tables are never cleared and pile up over all steps (the dense weights are cleared correctly).
"""Two-tower recommender out of plain tensors with a row-wise optimizer for its tables."""
import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(31)
rng = np.random.default_rng(31)

USERS, ITEMS, DIM, HIDDEN = 300, 200, 16, 32


def init():
    def t(*shape, scale):
        return (scale * torch.randn(*shape)).requires_grad_()
    return {
        "user": t(USERS, DIM, scale=0.1),
        "item": t(ITEMS, DIM, scale=0.1),
        "w1": t(2 * DIM, HIDDEN, scale=(2 * DIM) ** -0.5),
        "b1": torch.zeros(HIDDEN, requires_grad=True),
        "w2": t(HIDDEN, scale=HIDDEN ** -0.5),
        "b2": torch.zeros((), requires_grad=True),
    }


def score(p, u, i):
    eu, ei = p["user"][u], p["item"][i]
    h = torch.relu(torch.cat([eu, ei], 1) @ p["w1"] + p["b1"])
    return (eu * ei).sum(1) + h @ p["w2"] + p["b2"]


class RowWise:
    """Momentum SGD for dense tensors, Adagrad per touched row for the tables."""

    def __init__(self, params, tables, lr, table_lr, momentum=0.9):
        self.dense = {k: v for k, v in params.items() if k not in tables}
        self.tables = {k: params[k] for k in tables}
        self.velocity = {k: torch.zeros_like(v) for k, v in self.dense.items()}
        self.seen = {k: torch.full((len(v), 1), 1e-6) for k, v in self.tables.items()}
        self.lr, self.table_lr, self.momentum = lr, table_lr, momentum

    @torch.no_grad()
    def step(self):
        for k, p in self.dense.items():
            self.velocity[k].mul_(self.momentum).add_(p.grad)
            p.sub_(self.lr * self.velocity[k])
        for k, p in self.tables.items():
            rows = p.grad.abs().sum(1).nonzero().squeeze(1)
            g = p.grad[rows]
            self.seen[k][rows] += g.square().mean(1, keepdim=True)
            p[rows] -= self.table_lr * g / self.seen[k][rows].sqrt()

    @torch.no_grad()
    def clear(self, touched):
        for p in self.dense.values():
            p.grad = None
        for k, rows in touched.items():
            p = self.tables[k]
            if p.grad is not None:
                p.grad[rows].zero_()


def interactions(n, taste, trait):
    u, i = rng.integers(0, USERS, n), rng.integers(0, ITEMS, n)
    r = (taste[u] * trait[i]).sum(1) + 0.3 * rng.standard_normal(n)
    return torch.tensor(u), torch.tensor(i), torch.tensor(r, dtype=torch.float32)


def main():
    taste, trait = rng.standard_normal((USERS, 3)) / 3 ** 0.5, rng.standard_normal((ITEMS, 3))
    train, test = interactions(24000, taste, trait), interactions(4000, taste, trait)
    params = init()
    opt = RowWise(params, ("user", "item"), lr=0.01, table_lr=0.05)
    touched, running = {}, 0.0
    for step in range(1, 1001):
        idx = torch.randint(0, len(train[0]), (256,))
        u, i, r = (column[idx] for column in train)
        opt.clear(touched)
        loss = (score(params, u, i) - r).square().mean()
        loss.backward()
        opt.step()
        touched = {"user": u.unique(), "item": i.unique()}
        running += (loss.item() - running) / min(step, 100)
        if step % 250 == 0:
            with torch.no_grad():
                rmse = (score(params, *test[:2]) - test[2]).square().mean().sqrt().item()
            print(f"step {step:5d}  train mse {running:.3f}  test rmse {rmse:.3f}")


if __name__ == "__main__":
    main()
