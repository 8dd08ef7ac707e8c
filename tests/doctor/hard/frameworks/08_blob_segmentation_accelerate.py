# kind: inside frameworks
# expect: nothing
# like: accumulation-not-divided
# why: the script never divides the loss by the number of micro-batches, but accelerator.backward does so itself, because
#      the Accelerator was told gradient_accumulation_steps; step, clip and zero_grad follow sync_gradients.
"""Foreground segmentation of noisy pictures, gradient accumulation through Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Blobs(Dataset):
    """Pictures of one to three ellipses in noise; everything is fixed by the seed."""

    def __init__(self, count, seed, size=24):
        g = torch.Generator().manual_seed(seed)
        ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.masks = torch.zeros(count, 1, size, size)
        for i in range(count):
            for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
                cy, cx = torch.randint(4, size - 4, (2,), generator=g)
                ry, rx = 2 + 4 * torch.rand(2, generator=g)
                self.masks[i, 0][((ys - cy) / ry) ** 2 + ((xs - cx) / rx) ** 2 <= 1] = 1.0
        self.images = self.masks - 0.5 + 0.8 * torch.randn(self.masks.shape, generator=g)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class SmallUNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.GroupNorm(3, c), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.GroupNorm(3, 2 * c), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 1, 1))

    def forward(self, x):
        skip = self.down(x)
        deep = self.mid(F.max_pool2d(skip, 2))
        return self.out(torch.cat([skip, self.up(deep)], dim=1))


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    inter = union = 0.0
    for image, mask in loader:
        pred, truth = model(image) > 0, mask > 0.5
        inter += (pred & truth).sum().item()
        union += (pred | truth).sum().item()
    return inter / union


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()

    set_seed(31)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    model = SmallUNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    train_loader = DataLoader(Blobs(1024, seed=1), batch_size=8, shuffle=True)  # 128 batches: 32 full cycles
    valid_loader = DataLoader(Blobs(256, seed=2), batch_size=64)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(model, optimizer, train_loader, valid_loader)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for image, mask in train_loader:
            with accelerator.accumulate(model):
                loss = F.binary_cross_entropy_with_logits(model(image), mask)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        accelerator.print(f"epoch {epoch}: loss {total / len(train_loader):.4f}  IoU {mean_iou(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
