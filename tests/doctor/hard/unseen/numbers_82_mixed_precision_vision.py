# kind: numbers
# expect: clip-before-unscale
# why: guard() clips to norm 1 between scaler.scale(loss).backward() and scaler.step() without unscale_, so the scaled gradients (scale 1024) are clipped and the true gradient norm is about 1/1024; SGD hardly moves.
"""Small image classifier trained with float16 autocast and a gradient scaler."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(91)


class TinyConv(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU())
        self.head = nn.Linear(16 * 3 * 3, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).flatten(1))


class Engine:
    def __init__(self, model, lr, max_norm=1.0):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=500)
        self.max_norm = max_norm
        self.skipped = 0

    def guard(self):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        if not torch.isfinite(norm):
            self.skipped += 1
        return norm

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), y)
        self.scaler.scale(loss).backward()
        self.guard()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        hits = count = 0
        for x, y in loader:
            hits += (self.model(x).argmax(1) == y).sum().item()
            count += len(y)
        self.model.train()
        return hits / count


def make_images(n, g):
    y = torch.randint(4, (n,), generator=g)
    grid = torch.linspace(-1, 1, 12)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    patterns = torch.stack([torch.sin(6 * xx), torch.sin(6 * yy), torch.sin(6 * (xx + yy)), torch.sin(6 * (xx - yy))])
    x = patterns[y][:, None] + 0.8 * torch.randn(n, 1, 12, 12, generator=g)
    return TensorDataset(x, y)


def main():
    g = torch.Generator().manual_seed(29)
    train = DataLoader(make_images(1280, g), batch_size=32, shuffle=True)
    valid = DataLoader(make_images(512, g), batch_size=256)
    engine = Engine(TinyConv(), lr=0.05)
    for epoch in range(4):
        total = sum(engine.step(x, y) for x, y in train)
        print(f"epoch {epoch} loss {total / len(train):.3f} valid acc {engine.evaluate(valid):.3f} "
              f"skipped {engine.skipped}")


if __name__ == "__main__":
    main()
