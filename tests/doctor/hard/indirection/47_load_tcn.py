# kind: behind indirection
# expect: future-leaks
# why: The causal convolutions pad both sides and rely on a forward hook to cut the surplus; the hook uses a helper that
#      crops the centre instead of cutting the end, so step t sees later steps, whose values it has to predict.
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def crop(x, length):
    """Cut a padded signal back to its length."""
    start = (x.shape[-1] - length) // 2
    return x[..., start:start + length]


class Trimmed:
    """Makes a padded convolution keep the length of its input."""

    def __init__(self, conv):
        self.length = None
        conv.register_forward_pre_hook(self.before)
        conv.register_forward_hook(self.after)

    def before(self, module, args):
        self.length = args[0].shape[-1]

    def after(self, module, args, out):
        return crop(out, self.length)


def causal_conv(cin, cout, k, dilation):
    conv = nn.Conv1d(cin, cout, k, padding=(k - 1) * dilation, dilation=dilation)
    Trimmed(conv)
    return conv


class Residual(nn.Module):
    def __init__(self, width, k, dilation):
        super().__init__()
        self.net = nn.Sequential(
            causal_conv(width, width, k, dilation), nn.GELU(), nn.Conv1d(width, width, 1), nn.Dropout(0.05)
        )

    def forward(self, x):
        return x + self.net(x)


class TCN(nn.Module):
    """At every step, mean and log-variance of the next value."""

    def __init__(self, width=24, k=3, depth=4):
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.blocks = nn.Sequential(*(Residual(width, k, 2**i) for i in range(depth)))
        self.end = nn.Conv1d(width, 2, 1)

    def forward(self, series):
        out = self.end(torch.nn.functional.gelu(self.blocks(self.start(series[:, None]))))
        return out[:, 0], out[:, 1].clamp(-5, 3)


def meters(n, seed):
    """Electricity load of n households: daily shape, weekend dip, autoregressive noise."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(97).float()
    ph = torch.rand(n, 1, generator=g) * 2 * math.pi
    base = (0.6 + torch.rand(n, 1, generator=g)) * torch.sin(2 * math.pi * t / 24 + ph)
    noise = torch.zeros(n, 97)
    e = 0.5 * torch.randn(n, 97, generator=g)
    for i in range(1, 97):
        noise[:, i] = 0.7 * noise[:, i - 1] + e[:, i]
    return base + noise


def gaussian_nll(mean, logvar, target):
    return 0.5 * (logvar + (target - mean) ** 2 * torch.exp(-logvar)).mean()


def main():
    torch.manual_seed(13)
    raw, held = meters(640, 1), meters(160, 2)
    mu, sd = raw.mean(), raw.std()
    train = DataLoader(TensorDataset((raw - mu) / sd), 32, shuffle=True)
    valid = DataLoader(TensorDataset((held - mu) / sd), 80)
    model = TCN()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(9):
        model.train()
        tot = 0.0
        for (s,) in train:
            opt.zero_grad()
            loss = gaussian_nll(*model(s[:, :-1]), s[:, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot += loss.item() * len(s)
        model.eval()
        err = n = 0
        with torch.no_grad():
            for (s,) in valid:
                m, _ = model(s[:, :-1])
                err += (m - s[:, 1:]).pow(2).sum().item()
                n += m.numel()
        print(f"epoch {epoch} nll {tot / 640:.4f} valid rmse {math.sqrt(err / n):.4f}")


main()
