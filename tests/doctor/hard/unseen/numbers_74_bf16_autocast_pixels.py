# kind: numbers
# expect: nothing
# why: bfloat16 only inside autocast with float32 weights and no scaler (not needed for bfloat16), raw 0..255 pixels that the network's first layer rescales itself, and a hand-written but correct log-softmax in float32 before nll_loss.
"""Glyph classifier on raw bytes: autocast body, log-probabilities by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(51)

GLYPHS, SIZE = 10, 12


def glyphs(n, seed):
    gen = torch.Generator().manual_seed(seed)
    shapes = (torch.rand(GLYPHS, SIZE, SIZE, generator=torch.Generator().manual_seed(300)) < 0.35).float()
    y = torch.randint(0, GLYPHS, (n,), generator=gen)
    ink = 90 + 120 * torch.rand(n, 1, 1, generator=gen)
    img = shapes[y] * ink + 150 * torch.randn(n, SIZE, SIZE, generator=gen)
    return TensorDataset(img.clamp(0, 255).round().unsqueeze(1), y)


class Rescale(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, x):
        return (x - self.mean) / self.std


class GlyphNet(nn.Module):
    def __init__(self, mean, std, ch=16):
        super().__init__()
        self.scale = Rescale(mean, std)
        self.conv1 = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * ch)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(2 * ch * 9, GLYPHS)

    def forward(self, x):
        h = F.relu(self.conv1(self.scale(x)))
        h = F.relu(self.norm(self.conv2(h)))
        return self.fc(self.drop(h.flatten(1)))


def log_probs(z):
    z = z.float()
    z = z - z.amax(dim=1, keepdim=True).detach()
    return z - z.exp().sum(dim=1, keepdim=True).log()


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = seen = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        seen += len(y)
    return hits / seen


def main():
    train, val = glyphs(1920, 1), glyphs(600, 2)
    pixels = train.tensors[0]
    loader = DataLoader(train, batch_size=64, shuffle=True)
    val_loader = DataLoader(val, batch_size=200)
    model = GlyphNet(pixels.mean().item(), pixels.std().item())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(1, 5):
        model.train()
        total = 0.0
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = model(x)
            loss = F.nll_loss(log_probs(z), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch}  loss {total / len(train):.3f}  val acc {accuracy(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
