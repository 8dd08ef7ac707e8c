# kind: without a DataLoader
# expect: future-leaks
# why: the dilated convolutions are padded on the left only, but the depthwise smoothing convolution at the end uses padding="same" and looks one step ahead, which is exactly the target; the validation error is far too good and the forecast at the end of a window is far worse.
"""Temporal convolution network for river levels; windows are cut by hand from one long series."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(2)


def river(n, seed):
    rng = np.random.default_rng(seed)
    rain = np.maximum(rng.standard_normal(n) - 0.8, 0) * 2
    level = np.zeros(n)
    for t in range(2, n):
        level[t] = 1.1 * level[t - 1] - 0.25 * level[t - 2] + 0.6 * rain[t - 1] + 0.35 * rng.standard_normal()
    stacked = np.stack([level, rain])
    past = stacked[:, :5500]
    return torch.tensor((stacked - past.mean(1, keepdims=True)) / past.std(1, keepdims=True),
                        dtype=torch.float32)


class CausalBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(ch, ch, 3, dilation=dilation)
        self.mix = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = F.gelu(self.conv(F.pad(x, (self.pad, 0))))
        return x + self.mix(h)


class RiverNet(nn.Module):
    """Predicts the level at t+1 from levels and rain up to t."""

    def __init__(self, ch=32):
        super().__init__()
        self.inp = nn.Conv1d(2, ch, 1)
        self.blocks = nn.Sequential(*[CausalBlock(ch, d) for d in (1, 2, 4)])
        self.smooth = nn.Conv1d(ch, ch, 3, padding="same", groups=ch)
        self.out = nn.Conv1d(ch, 1, 1)

    def forward(self, x):
        h = self.blocks(self.inp(x))
        return self.out(F.gelu(self.smooth(h))).squeeze(1)


class Windows:
    def __init__(self, series, length, seed):
        self.series, self.length = series, length
        self.rng = np.random.default_rng(seed)

    def sample(self, n):
        starts = self.rng.integers(0, self.series.shape[1] - self.length - 1, n)
        cut = torch.stack([self.series[:, s:s + self.length + 1] for s in starts])
        return cut[:, :, :-1], cut[:, 0, 1:]


def main():
    series = river(7000, seed=4)
    train = Windows(series[:, :5500], 48, seed=1)
    val = Windows(series[:, 5500:], 48, seed=2).sample(400)
    model = RiverNet()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    for step in range(1, 241):
        x, y = train.sample(32)
        loss = F.mse_loss(model(x)[:, 8:], y[:, 8:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            model.eval()
            with torch.no_grad():
                pred = model(val[0])
            model.train()
            everywhere = F.mse_loss(pred[:, 8:], val[1][:, 8:]).item()
            print(f"step {step:4d}  train {loss.item():.4f}  val mse {everywhere:.4f}  "
                  f"val mse, last position {F.mse_loss(pred[:, -1], val[1][:, -1]).item():.4f}")


if __name__ == "__main__":
    main()
