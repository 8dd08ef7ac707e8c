# kind: numbers
# expect: clip-before-unscale
# why: clip_grad_norm_ sees gradients that are still multiplied by the scale (65536 at first), so every gradient is
#      clipped to 1/65536 of the intended norm; unscale_ is never called before it.
"""Smart-meter appliance detection with float16 autocast on the CPU."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

APPLIANCES = 5


def meter(n, seed, length=48):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, APPLIANCES, (n,), generator=g)
    t = torch.arange(length).float()
    start = torch.randint(4, 20, (n, 1), generator=g)
    width = torch.tensor([4, 8, 12, 16, 24])[y][:, None]
    power = torch.tensor([2.0, 1.5, 1.0, 0.8, 0.5])[y][:, None]
    on = ((t >= start) & (t < start + width)).float()
    x = power * on + 0.3 * torch.randn(n, length, generator=g)
    return TensorDataset((x - 0.3) / 0.6, y)


class Detector(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(48, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width),
                                 nn.ReLU(), nn.Linear(width, APPLIANCES))

    def forward(self, x):
        return self.net(x)


class AmpLoop:
    def __init__(self, model, lr, clip):
        self.model, self.clip = model, clip
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.criterion = nn.CrossEntropyLoss()

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.model(x)
        loss = self.criterion(out.float(), y)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = n = 0
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                hits += (self.model(x).argmax(1) == y).sum().item()
            n += len(y)
        self.model.train()
        return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(24)
    train = DataLoader(meter(2560, 1), batch_size=64, shuffle=True)
    valid = DataLoader(meter(640, 2), batch_size=160)
    loop = AmpLoop(Detector(), args.lr, args.clip)
    for epoch in range(args.epochs):
        losses = [loop.step(x, y) for x, y in train]
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} accuracy {loop.accuracy(valid):.3f} "
              f"scale {loop.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
