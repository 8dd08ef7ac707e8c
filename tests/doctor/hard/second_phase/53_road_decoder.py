# kind: in a second phase
# expect: nothing
# like: trained-in-eval-mode
# why: in the second phase the encoder is frozen, out of the optimizer, and train() is overridden so that its BatchNorm and
#   dropout stay in eval mode on purpose; the new decoder is in train mode.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def tiles(count, seed, size=24):
    g = torch.Generator().manual_seed(seed)
    axis = torch.arange(size).float() - size / 2
    yy, xx = axis[None, :, None], axis[None, None, :]
    angle = 3.1416 * torch.rand(count, 1, 1, generator=g)
    offset = 8 * torch.rand(count, 1, 1, generator=g) - 4
    road = ((angle.cos() * yy + angle.sin() * xx - offset).abs() < 1.6).float()
    surface = torch.randint(3, (count,), generator=g)
    stripes = torch.sin((surface[:, None, None] + 1) * 0.8 * (xx + yy))
    photo = 1.5 * road + 0.6 * stripes + 0.5 * torch.randn(count, size, size, generator=g)
    return ((photo - 0.2) / 0.85).unsqueeze(1), surface, road.unsqueeze(1)


class ConvUnit(nn.Sequential):
    def __init__(self, i, o, stride=1):
        super().__init__(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = ConvUnit(1, 12)
        self.b = ConvUnit(12, 24, 2)
        self.drop = nn.Dropout2d(0.05)
        self.c = ConvUnit(24, 24)

    def forward(self, x):
        fine = self.a(x)
        return fine, self.c(self.drop(self.b(fine)))


class SurfaceNet(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.fc = nn.Linear(24, 3)

    def forward(self, x):
        return self.fc(self.encoder(x)[1].mean((2, 3)))


class RoadNet(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.mix = ConvUnit(36, 16)
        self.out = nn.Conv2d(16, 1, 1)

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            fine, coarse = self.encoder(x)
        coarse = F.interpolate(coarse, size=fine.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(self.mix(torch.cat([fine, coarse], 1)))


def run_epoch(net, loader, criterion, opt):
    net.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


def measure(net, x, fn):
    net.eval()
    with torch.no_grad():
        return fn(net(x))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(12)
    photo, surface, _ = tiles(1000, seed=1)
    v_photo, v_surface, v_road = tiles(250, seed=2)
    photo2, _, road2 = tiles(800, seed=3)

    encoder = Encoder()
    first = SurfaceNet(encoder)
    opt = torch.optim.Adam(first.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(photo, surface), batch_size=25, shuffle=True)
    for epoch in range(3):
        loss = run_epoch(first, loader, nn.CrossEntropyLoss(), opt)
        acc = measure(first, v_photo, lambda out: (out.argmax(1) == v_surface).float().mean().item())
        print(f"surface {epoch}  loss {loss:.4f}  valid acc {acc:.3f}")

    second = RoadNet(encoder)
    opt = torch.optim.Adam([p for p in second.parameters() if p.requires_grad], lr=2e-3)
    loader = DataLoader(TensorDataset(photo2, road2), batch_size=20, shuffle=True)
    for epoch in range(5):
        loss = run_epoch(second, loader, nn.BCEWithLogitsLoss(), opt)
        iou = measure(second, v_photo, lambda out: (((out > 0) & (v_road > 0)).sum() / ((out > 0) | (v_road > 0)).sum()).item())
        print(f"road {epoch}  loss {loss:.4f}  valid iou {iou:.3f}")
