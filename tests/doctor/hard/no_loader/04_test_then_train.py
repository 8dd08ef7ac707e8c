# kind: without a DataLoader
# expect: nothing
# like: train-valid-overlap
# why: samples are first scored and then trained on, never the other way round (prequential evaluation of a stream): at
#      the time of its test every sample is unseen.
"""Online click-through model with drift: every chunk of the stream is a test set first and a training set afterwards."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


class ClickStream:
    """Chunks of impressions; the taste of the audience turns slowly."""

    def __init__(self, chunk, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.chunk = chunk
        self.taste = torch.randn(16, generator=self.g)
        self.cross = torch.randn(16, 16, generator=self.g) / 4

    def __iter__(self):
        while True:
            x = torch.randn(self.chunk, 16, generator=self.g)
            logit = x @ self.taste * 0.7 + (x @ self.cross * x).sum(1) * 0.5
            y = (torch.rand(self.chunk, generator=self.g) < torch.sigmoid(logit)).float()
            yield x, y
            self.taste += 0.01 * torch.randn(16, generator=self.g)


def score(model, x, y):
    model.eval()
    with torch.no_grad():
        out = model(x).squeeze(1)
        return F.binary_cross_entropy_with_logits(out, y).item(), ((out > 0) == (y > 0.5)).float().mean().item()


def learn(model, opt, x, y):
    model.train()
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
    loss.backward()
    opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--chunks", type=int, default=1000)
    ap.add_argument("--chunk", type=int, default=128)
    ap.add_argument("--report", type=int, default=100)
    args = ap.parse_args()
    torch.manual_seed(104)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Dropout(0.05), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    tested = accurate = trained = 0.0
    for i, (x, y) in enumerate(ClickStream(args.chunk, seed=1040), 1):
        nll, acc = score(model, x, y)
        trained += learn(model, opt, x, y)
        tested += nll
        accurate += acc
        if i % args.report == 0:
            print(f"chunk {i} prequential nll {tested / args.report:.4f} acc {accurate / args.report:.3f} train {trained / args.report:.4f}")
            tested = accurate = trained = 0.0
        if i == args.chunks:
            break


if __name__ == "__main__":
    main()
