# kind: numbers
# expect: sigmoid-before-bce-logits
# why: the model ends in a hand-written sigmoid, 0.5 * (1 + tanh(z / 2)), and the focal loss gives these probabilities to binary_cross_entropy_with_logits as if they were logits.
"""Multi-label tagging of sound clips with a focal loss for rare tags."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)
torch.manual_seed(33)

TAGS, BANDS, FRAMES = 10, 16, 20


def squash(z):
    """Logistic curve without overflow for large |z|."""
    return 0.5 * (1.0 + torch.tanh(0.5 * z))


def clips(n, seed):
    gen = torch.Generator().manual_seed(seed)
    profile = torch.randn(TAGS, BANDS, generator=torch.Generator().manual_seed(800))
    rate = torch.linspace(0.08, 0.35, TAGS)
    tags = (torch.rand(n, TAGS, generator=gen) < rate).float()
    spectrum = (tags @ profile).unsqueeze(-1) * torch.rand(n, 1, FRAMES, generator=gen)
    return spectrum + 0.7 * torch.randn(n, BANDS, FRAMES, generator=gen), tags


class Tagger(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(BANDS, ch, 3, padding=1), nn.BatchNorm1d(ch), nn.ReLU(),
            nn.Conv1d(ch, ch, 3, padding=1), nn.BatchNorm1d(ch), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(2 * ch, TAGS)

    def forward(self, x):
        h = self.conv(x)
        h = torch.cat([h.mean(-1), h.amax(-1)], 1)
        return squash(self.out(self.drop(h)))


class FocalLoss(nn.Module):
    def __init__(self, gamma=1.0, alpha=0.6):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, p, target):
        ce = F.binary_cross_entropy_with_logits(p, target, reduction="none")
        hit = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - hit) ** self.gamma * ce).mean()


@torch.no_grad()
def scores(model, loader):
    model.eval()
    p, t = (torch.cat(c) for c in zip(*[(model(x), y) for x, y in loader]))
    model.train()
    guess = (p > 0.5).float()
    tp = (guess * t).sum()
    f1 = (2 * tp / (guess.sum() + t.sum()).clamp_min(1)).item()
    safe = p.clamp(1e-6, 1 - 1e-6)
    return f1, F.binary_cross_entropy(safe, t).item()


def main():
    train, val = random_split(TensorDataset(*clips(3000, 1)), [2560, 440],
                              generator=torch.Generator().manual_seed(5))
    loader = DataLoader(train, batch_size=64, shuffle=True)
    val_loader = DataLoader(val, batch_size=220)
    model, criterion = Tagger(), FocalLoss()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, 7):
        total = 0.0
        for x, y in loader:
            loss = criterion(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        f1, nll = scores(model, val_loader)
        print(f"epoch {epoch}  focal {total / len(train):.4f}  val F1 {f1:.3f}  val log loss {nll:.3f}")


if __name__ == "__main__":
    main()
