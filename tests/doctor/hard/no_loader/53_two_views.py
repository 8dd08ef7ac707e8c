# kind: without a DataLoader
# expect: nothing
# like: batch-mixed
# why: The contrastive loss sets every sample against the others of its batch on purpose (and its second half runs over
#      the batch); the encoder itself treats each sample alone. Validation views are made once.
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Signals:
    """Short multi-tone signals, kept as one tensor; views are made when asked."""

    def __init__(self, n, length, gen):
        t = torch.linspace(0, 1, length)
        freq = torch.rand(n, 3, 1, generator=gen) * 14 + 1
        amp = torch.rand(n, 3, 1, generator=gen) + 0.3
        phase = torch.rand(n, 3, 1, generator=gen) * 2 * math.pi
        x = (amp * torch.sin(2 * math.pi * freq * t + phase)).sum(1)
        self.x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    def __len__(self):
        return len(self.x)


def view(x, gen):
    """Gain, noise and a hidden stretch, drawn for each signal."""
    n, length = x.shape
    gain = 0.7 + 0.6 * torch.rand(n, 1, generator=gen)
    noise = 0.35 * torch.randn(n, length, generator=gen)
    start = torch.randint(0, length - 12, (n, 1), generator=gen)
    place = torch.arange(length)[None]
    gone = (place >= start) & (place < start + 12)
    return (x * gain + noise).masked_fill(gone, 0.0)


def pairs(signals, batch, gen):
    order = torch.randperm(len(signals), generator=gen)
    for pick in order[:len(order) // batch * batch].split(batch):
        x = signals.x[pick]
        yield view(x, gen), view(x, gen)


class Encoder(nn.Module):
    def __init__(self, ch=24, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, ch, 7, stride=2, padding=3), nn.GroupNorm(4, ch), nn.GELU(),
            nn.Conv1d(ch, 2 * ch, 5, stride=2, padding=2), nn.GroupNorm(4, 2 * ch), nn.GELU())
        self.project = nn.Sequential(nn.Flatten(), nn.Linear(2 * ch * 16, 64), nn.GELU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.project(self.conv(x[:, None])), dim=-1)


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.1)))

    def forward(self, a, b):
        scores = a @ b.T * self.log_scale.exp().clamp(max=100)
        who = torch.arange(len(a))
        return (F.cross_entropy(scores, who) + F.cross_entropy(scores.T, who)) / 2, scores


def main():
    torch.manual_seed(88)
    gen = torch.Generator().manual_seed(88)
    train, valid = Signals(1536, 64, gen), Signals(384, 64, gen)
    shown = [(view(x, gen), view(x, gen)) for x in valid.x.split(64)]

    encoder, contrast = Encoder(), Contrast()
    everything = nn.ModuleList([encoder, contrast])
    opt = torch.optim.AdamW([
        {"params": encoder.parameters(), "weight_decay": 1e-3},
        {"params": contrast.parameters(), "weight_decay": 0.0},
    ], lr=1.5e-3)
    for epoch in range(9):
        everything.train()
        losses = []
        for left, right in pairs(train, 64, gen):
            opt.zero_grad()
            loss, _ = contrast(encoder(left), encoder(right))
            loss.backward()
            opt.step()
            losses.append(loss.item())
        everything.eval()
        vlosses, hits = [], []
        with torch.no_grad():
            for left, right in shown:
                loss, scores = contrast(encoder(left), encoder(right))
                vlosses.append(loss.item())
                hits.append((scores.argmax(1) == torch.arange(len(left))).float().mean().item())
        print(f"epoch {epoch} train {sum(losses) / len(losses):.4f} valid {sum(vlosses) / len(vlosses):.4f} "
              f"top1 {sum(hits) / len(hits):.3f} scale {contrast.log_scale.exp().item():.2f}")


if __name__ == "__main__":
    main()
