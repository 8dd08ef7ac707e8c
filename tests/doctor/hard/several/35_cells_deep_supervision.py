# kind: several losses and optimizers
# expect: dead-parameter
# why: The meter returns a plain float and that float is added to the total, so the auxiliary head,
#      which has its own optimizer, never gets a gradient.
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


@dataclass
class Config:
    seed: int = 8
    size: int = 24
    n_train: int = 512
    n_valid: int = 128
    batch: int = 32
    epochs: int = 10
    lr_body: float = 2e-3
    lr_heads: float = 4e-3
    aux_weight: float = 0.4


class Cells(Dataset):
    """Bright discs on a noisy background; the mask tells background, cell, and rim."""

    def __init__(self, n, size, seed):
        g = torch.Generator().manual_seed(seed)
        grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
        centre = 5 + (size - 10) * torch.rand(n, 2, 1, 1, generator=g)
        radius = 3 + 3 * torch.rand(n, 1, 1, generator=g)
        dist = (grid - centre).pow(2).sum(1).sqrt()
        self.mask = (dist < radius + 1.5).long() + (dist < radius).long()
        level = torch.tensor([-0.6, 0.2, 0.9])[self.mask]
        self.image = (level + 0.5 * torch.randn(n, size, size, generator=g)).unsqueeze(1)

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.mask[i]


class Meter:
    def __init__(self):
        self.total, self.count = {}, {}

    def add(self, name, value, n):
        value = value.item()
        self.total[name] = self.total.get(name, 0.0) + value * n
        self.count[name] = self.count.get(name, 0) + n
        return value

    def __str__(self):
        return " ".join(f"{k} {v / self.count[k]:.4f}" for k, v in self.total.items())


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(4, o), nn.SiLU())


class SegNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2 = block(1, 12), block(12, 24)
        self.up = block(24 + 12, 12)
        self.head = nn.Conv2d(12, classes, 1)
        self.aux_head = nn.Conv2d(24, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        up = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        out = self.head(self.up(torch.cat([a, up], 1)))
        if not self.training:
            return out
        return out, self.aux_head(b)


def main(cfg):
    torch.manual_seed(cfg.seed)
    train = DataLoader(Cells(cfg.n_train, cfg.size, cfg.seed + 1), cfg.batch, shuffle=True)
    valid = DataLoader(Cells(cfg.n_valid, cfg.size, cfg.seed + 2), cfg.batch)
    net = SegNet()
    heads = [*net.head.parameters(), *net.aux_head.parameters()]
    ids = {id(p) for p in heads}
    opt_heads = torch.optim.Adam(heads, lr=cfg.lr_heads)
    opt_body = torch.optim.Adam([p for p in net.parameters() if id(p) not in ids], lr=cfg.lr_body)

    for epoch in range(cfg.epochs):
        net.train()
        meter = Meter()
        for image, mask in train:
            out, aux = net(image)
            loss = F.cross_entropy(out, mask)
            meter.add("main", loss, len(image))
            coarse = mask[:, ::2, ::2]
            loss = loss + cfg.aux_weight * meter.add("aux", F.cross_entropy(aux, coarse), len(image))
            opt_body.zero_grad()
            opt_heads.zero_grad()
            loss.backward()
            opt_body.step()
            opt_heads.step()

        net.eval()
        inter = union = torch.zeros(3)
        with torch.no_grad():
            for image, mask in valid:
                pred = F.one_hot(net(image).argmax(1), 3).bool()
                true = F.one_hot(mask, 3).bool()
                inter = inter + (pred & true).sum((0, 1, 2))
                union = union + (pred | true).sum((0, 1, 2))
        print(f"epoch {epoch} {meter} | mIoU {(inter / union).mean():.3f}")


if __name__ == "__main__":
    main(Config())
