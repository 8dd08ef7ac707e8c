# kind: without a DataLoader
# expect: batch-first
# also: batch-mixed
# why: the GRU is made without batch_first but is fed (batch, time, channel), so it runs over the samples of the batch as if
#      they were time steps and each sample is classified with the state of the samples before it.
"""Gesture recognition from accelerometer windows that are sampled by hand out of labelled recordings."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

GESTURES, CHANNELS = 5, 3


def recordings(per, length, g):
    t = torch.arange(length).float()
    out = []
    for k in range(GESTURES):
        freq = 0.10 + 0.05 * k
        phase = 6.28 * torch.rand(per, 1, CHANNELS, generator=g)
        out.append(torch.sin(6.2832 * freq * t[None, :, None] + phase) + 0.5 * torch.randn(per, length, CHANNELS, generator=g))
    return torch.stack(out)


class Sampler:
    def __init__(self, data, window, g):
        self.data, self.window, self.g = data, window, g

    def pick(self, top, n):
        return torch.randint(0, top, (n,), generator=self.g)

    def draw(self, n):
        k, r = self.pick(GESTURES, n), self.pick(self.data.shape[1], n)
        s = self.pick(self.data.shape[2] - self.window + 1, n)
        cols = s[:, None] + torch.arange(self.window)
        return self.data[k[:, None], r[:, None], cols], k


class Recogniser(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.rnn = nn.GRU(CHANNELS, h, num_layers=1)
        self.out = nn.Linear(h, GESTURES)

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.out(states[:, -1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--window", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(113)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1130)
    train, held = recordings(40, 200, g), recordings(10, 200, g)
    scale = train.std()
    sampler = Sampler(train / scale, args.window, g)
    xv, yv = Sampler(held / scale, args.window, torch.Generator().manual_seed(3)).draw(480)
    model = Recogniser(40)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    run = 0.0
    for step in range(1, args.steps + 1):
        model.train()
        x, y = sampler.draw(args.batch)
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        run += loss.item()
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                hits = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(xv.split(args.batch), yv.split(args.batch)))
            print(f"step {step} loss {run / 50:.4f} held-out acc {hits / len(yv):.3f}")
            run = 0.0


if __name__ == "__main__":
    main()
