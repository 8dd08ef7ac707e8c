# kind: without a DataLoader
# expect: same-batch-every-step
# why: every step makes the generator anew with the same seed and takes its first batch, so all 800 steps train on the
#      same 64 rows; the training loss goes to zero and the validation loss goes up.
"""Wine-quality style table: a batcher that reshuffles with its own seed."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


def wines(n, g):
    x = torch.randn(n, 11, generator=g)
    score = 0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.5 * torch.tanh(2 * x[:, 2] * x[:, 3]) + 0.4 * torch.randn(n, generator=g)
    return x, torch.bucketize(score, torch.tensor([-0.9, -0.2, 0.4, 1.1]))


def batcher(x, y, size, seed):
    """Endless reshuffled batches, reproducible through the seed."""
    g = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(x), generator=g)
        for at in range(0, len(x) - size + 1, size):
            idx = order[at:at + size]
            yield x[idx], y[idx]


class Grader:
    def __init__(self, args):
        self.net = nn.Sequential(nn.Linear(11, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 5))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        self.args = args

    def next_batch(self, x, y):
        return next(batcher(x, y, self.args.batch, self.args.seed))

    def step(self, x, y):
        xb, yb = self.next_batch(x, y)
        self.net.train()
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(xb), yb)
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, x, y):
        self.net.eval()
        out = self.net(x)
        return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=800)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--seed", type=int, default=105)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1050)
    x, y = wines(20000, g)
    xv, yv = wines(1500, g)
    grader = Grader(args)
    for step in range(1, args.steps + 1):
        loss = grader.step(x, y)
        if step % 100 == 0:
            vl, va = grader.evaluate(xv, yv)
            print(f"step {step} train {loss:.4f} valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
