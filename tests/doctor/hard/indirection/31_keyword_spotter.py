# kind: behind indirection
# expect: clip-of-nothing
# why: `trainable` is a one-shot filter object that the optimizer's constructor has already used up; the
#      functools.partial that clips in the optimizer's pre-step hook therefore clips an empty sequence.
import argparse
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def parse():
    ap = argparse.ArgumentParser(description="keyword spotting on log-mel frames")
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--max-norm", type=float, default=0.5)
    ap.add_argument("--seed", type=int, default=11)
    return ap.parse_args()


def synth(n, words, gen):
    """Every word is a fixed trajectory in mel space, time-shifted and buried in noise."""
    t = torch.arange(40).float()
    y = torch.randint(0, words, (n,), generator=gen)
    centre = 14 + 12 * torch.rand(n, generator=gen)
    f0 = 3 + 1.6 * y.float()
    slope = torch.where(y % 2 == 0, 0.12, -0.12)
    band = torch.arange(20).float()
    track = f0[:, None] + slope[:, None] * (t[None] - centre[:, None])
    env = torch.exp(-((t[None] - centre[:, None]) / 8) ** 2)
    mel = torch.exp(-0.5 * ((band[None, None] - track[..., None]) / 1.2) ** 2) * env[..., None]
    return mel + 0.7 * torch.randn(mel.shape, generator=gen), y


class Spotter(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU())
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, words)

    def forward(self, mel):
        h, _ = self.rnn(self.stem(mel))
        return self.out(h.mean(1))


class Hooks:
    """Collects things that must happen around an optimizer step."""

    def __init__(self, opt):
        self.before, self.norms = [], []
        opt.register_step_pre_hook(self._fire)

    def _fire(self, opt, args, kwargs):
        for job in self.before:
            self.norms.append(float(job()))


def evaluate(net, loader):
    net.eval()
    right = loss = n = 0
    with torch.no_grad():
        for mel, y in loader:
            logits = net(mel)
            loss += nn.functional.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, right / n


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    words = 8
    xs, ys = synth(1280, words, gen)
    mean, std = xs[:1024].mean(), xs[:1024].std()
    xs = (xs - mean) / std
    train = DataLoader(TensorDataset(xs[:1024], ys[:1024]), args.batch, shuffle=True)
    valid = DataLoader(TensorDataset(xs[1024:], ys[1024:]), 128)

    net = Spotter(words)
    trainable = filter(lambda p: p.requires_grad, net.parameters())
    opt = torch.optim.RMSprop(trainable, lr=args.lr, momentum=0.5)
    hooks = Hooks(opt)
    hooks.before.append(functools.partial(nn.utils.clip_grad_norm_, trainable, max_norm=args.max_norm))

    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for mel, y in train:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(mel), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        vl, va = evaluate(net, valid)
        print(f"epoch {epoch:2d}  train {total / 1024:.3f}  valid {vl:.3f}  acc {va:.3f}")


if __name__ == "__main__":
    main()
