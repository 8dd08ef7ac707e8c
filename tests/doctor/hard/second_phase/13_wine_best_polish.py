# kind: in a second phase
# expect: nothing
# like: best-weights-aliased
# why: the best weights (and the optimizer's state beside them) are kept as copies, put back before the polishing phase, and
#      the final evaluation reproduces the best validation loss exactly.
"""Wine quality (soft ordinal classes): keep the best weights, put them back, polish with a small rate."""
import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def wines(count, generator):
    x = torch.randn(count, 11, generator=generator)
    taste = x[:, 0] + torch.sin(2 * x[:, 1]) + 0.5 * x[:, 2] * x[:, 3] + 0.5 * torch.randn(count, generator=generator)
    return x, torch.bucketize(taste, torch.tensor([-1.5, -0.5, 0.5, 1.5]))


class Snapshot:
    """The best state so far, independent of the live one."""

    def __init__(self):
        self.loss = float("inf")
        self.weights = self.optimizer = None
        self.epoch = -1

    def offer(self, epoch, loss, model, optimizer):
        if loss < self.loss:
            self.loss, self.epoch = loss, epoch
            self.weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            self.optimizer = copy.deepcopy(optimizer.state_dict())

    def restore(self, model, optimizer):
        model.load_state_dict(self.weights)
        optimizer.load_state_dict(self.optimizer)


def train_epoch(model, optimizer, x, y, batch=32):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch):
        loss = F.cross_entropy(model(x[idx]), y[idx], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--polish", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(3)
    x, y = wines(1536, generator)
    vx, vy = wines(1024, generator)
    model = nn.Sequential(
        nn.Linear(11, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 5)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    best = Snapshot()

    for epoch in range(args.epochs):
        loss = train_epoch(model, optimizer, x, y)
        valid, acc = evaluate(model, vx, vy)
        best.offer(epoch, valid, model, optimizer)
        print(f"epoch {epoch}: train {loss:.4f}  valid {valid:.4f}  accuracy {acc:.3f}")

    best.restore(model, optimizer)
    print(f"back to epoch {best.epoch}: valid {evaluate(model, vx, vy)[0]:.4f}")
    for group in optimizer.param_groups:
        group["lr"] = 4e-4
    for epoch in range(args.polish):
        loss = train_epoch(model, optimizer, x, y)
        valid, acc = evaluate(model, vx, vy)
        best.offer(args.epochs + epoch, valid, model, optimizer)
        print(f"polish {epoch}: train {loss:.4f}  valid {valid:.4f}  accuracy {acc:.3f}")
    best.restore(model, optimizer)
    assert abs(evaluate(model, vx, vy)[0] - best.loss) < 1e-6
    print(f"final: epoch {best.epoch}, valid {best.loss:.4f}")


if __name__ == "__main__":
    main()
