# kind: behind indirection
# expect: best-weights-aliased
# why: the keeper stores v.detach() of every weight, which shares memory with the live weights, so "the best" is whatever
#      the last epoch left; restoring it changes nothing.
"""Small noisy table: the network overfits, and a keeper object is to bring back the best epoch."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Keeper:
    """Remembers the weights with the lowest validation loss."""

    def __init__(self, model):
        self.get, self.put = model.state_dict, model.load_state_dict
        self.score, self.epoch, self.snapshot = float("inf"), -1, {}

    def __call__(self, epoch, score):
        if score < self.score:
            self.score, self.epoch = score, epoch
            self.snapshot = {k: v.detach() for k, v in self.get().items()}

    def restore(self):
        self.put(self.snapshot)
        return self.epoch, self.score


def table(n, g):
    x = torch.randn(n, 20, generator=g)
    logit = 1.5 * x[:, 0] - x[:, 1] + x[:, 2] * x[:, 3]
    y = (torch.rand(n, generator=g) < torch.sigmoid(logit)).float()
    return x, y


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x).squeeze(1)
    return F.binary_cross_entropy_with_logits(out, y).item(), ((out > 0) == y.bool()).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(18)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(180)
    x, y = table(960, g)
    xv, yv = table(1000, g)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(20, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    keeper = Keeper(model)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(xb).squeeze(1), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        vl, va = evaluate(model, xv, yv)
        keeper(epoch, vl)
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {vl:.4f} acc {va:.3f}")
    epoch, score = keeper.restore()
    vl, va = evaluate(model, xv, yv)
    print(f"restored epoch {epoch} (valid {score:.4f}); now valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
