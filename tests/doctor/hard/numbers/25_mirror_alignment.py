# kind: numbers
# expect: nothing
# like: exploding-updates
# why: the loss is in square metres (the residuals are fractions of a millimetre, so it is about 1e-7) and lr=4e5 is in
#      its inverse; the product is an ordinary step of about 1e-3 of the weights.
"""Surface error of telescope mirrors from actuator readings; the loss keeps its physical unit."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

METRE_PER_UNIT = 3.0e-4  # one standard deviation of the surface error


def mirrors(n, seed):
    g = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(3030)
    x = torch.randn(n, 18, generator=g)
    modes = torch.randn(18, 4, generator=fixed) / 18 ** 0.5
    surface = torch.tanh(1.5 * x @ modes) + 0.05 * torch.randn(n, 4, generator=g)
    return TensorDataset(x, METRE_PER_UNIT * surface)


class Mirror(nn.Module):
    """Predicts the surface error in metres."""

    def __init__(self, width=72):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(18, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 4))

    def forward(self, x):
        return METRE_PER_UNIT * self.net(x)


def square_metres(prediction, surface):
    return (prediction - surface).square().mean()


@torch.no_grad()
def rms_micrometre(model, loader):
    model.eval()
    squares = torch.cat([(model(x) - s).square().mean(1) for x, s in loader])
    return 1e6 * squares.mean().sqrt().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--lr", type=float, default=4e5, help="per square metre")
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(170)
    train = DataLoader(mirrors(4096, 1), batch_size=64, shuffle=True)
    valid = DataLoader(mirrors(1024, 2), batch_size=256)
    model = Mirror()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, surface in train:
            loss = square_metres(model(x), surface)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch:2d} loss {total / len(train):.3e} m^2  valid rms {rms_micrometre(model, valid):.1f} um")


if __name__ == "__main__":
    main()
