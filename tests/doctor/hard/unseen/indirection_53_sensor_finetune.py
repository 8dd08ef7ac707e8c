# kind: behind indirection
# expect: silent-partial-load
# why: The checkpoint's keys begin with "net.encoder.", the translation rule strips only "module.", and the tolerant
#      loader keeps just the keys that match: nothing matches, and the encoder is fine-tuned from scratch.
import io
import re

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

RULES = [(r"^module\.", ""), (r"\.gamma$", ".weight"), (r"\.beta$", ".bias")]


def translate(key):
    for pattern, new in RULES:
        key = re.sub(pattern, new, key)
    return key


class Checkpoint:
    """Weights by name, from anywhere, into anything that looks alike."""

    def __init__(self, blob):
        self.state = {translate(k): v for k, v in torch.load(blob, weights_only=True).items()}

    @classmethod
    def of(cls, module):
        blob = io.BytesIO()
        torch.save(module.state_dict(), blob)
        blob.seek(0)
        return cls(blob)

    def into(self, module):
        own = module.state_dict()
        usable = {k: v for k, v in self.state.items() if k in own and own[k].shape == v.shape}
        module.load_state_dict(usable, strict=False)
        return module


class Encoder(nn.Module):
    def __init__(self, channels=6, width=32):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, width, 5, padding=2)
        self.norm1 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.norm2 = nn.GroupNorm(4, width)

    def forward(self, x):
        x = F.gelu(self.norm1(self.conv1(x)))
        return F.gelu(self.norm2(self.conv2(x)))


class Reconstructor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), nn.Conv1d(32, 6, 5, padding=2)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class MaskedTask(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        g = None if self.training else torch.Generator().manual_seed(0)
        keep = (torch.rand(len(x), 1, x.shape[-1], generator=g) > 0.3).float()
        return F.mse_loss(self.net(x * keep), x)


class Activity(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.encoder, self.head = Encoder(), nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.encoder(x).mean(-1))


def wearables(n, g):
    y = torch.randint(0, 5, (n,), generator=g)
    t = torch.linspace(0, 2, 48)
    f = (1.0 + 0.7 * y)[:, None, None]
    gain = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))[y][..., None]
    ph = 6.283 * torch.rand(n, 1, 1, generator=g)
    x = gain * torch.sin(6.283 * f * t + ph + torch.arange(6.0)[:, None]) + 0.7 * torch.randn(n, 6, 48, generator=g)
    return x, y


def loop(module, loader, lr, epochs, objective, after):
    opt = torch.optim.AdamW(module.parameters(), lr=lr)
    for epoch in range(epochs):
        module.train()
        tot = n = 0
        for batch in loader:
            opt.zero_grad()
            loss = objective(*batch)
            loss.backward()
            opt.step()
            tot, n = tot + loss.item() * len(batch[0]), n + len(batch[0])
        module.eval()
        with torch.no_grad():
            print(f"{type(module).__name__} {epoch}: loss {tot / n:.4f} {after()}")


if __name__ == "__main__":
    torch.manual_seed(33)
    g = torch.Generator().manual_seed(34)
    xs, ys = wearables(1900, g)
    xs = (xs - xs[:1600].mean((0, 2), keepdim=True)) / xs[:1600].std((0, 2), keepdim=True)
    vx, vy = xs[1600:], ys[1600:]
    task = MaskedTask(Reconstructor())
    loop(task, DataLoader(TensorDataset(xs[:1280]), 32, shuffle=True), 2e-3, 3, task, lambda: f"valid {task(vx).item():.4f}")
    tuned = Checkpoint.of(task).into(Activity(5))
    few = DataLoader(TensorDataset(xs[1280:1600], ys[1280:1600]), 16, shuffle=True)
    loop(tuned, few, 1e-3, 6, lambda x, y: F.cross_entropy(tuned(x), y),
         lambda: f"valid acc {(tuned(vx).argmax(1) == vy).float().mean().item():.3f}")
