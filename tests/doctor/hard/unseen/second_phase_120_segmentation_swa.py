# kind: second_phase
# expect: nothing
# why: Might be accused of averaged-batchnorm-stale, targets-out-of-range, optimizer-recreated or augmented-validation: the averaged net gets fresh statistics by update_bn, label 255 is ignored by loss and metric, and only training images are flipped.
"""U-Net segmentation of blobs with unlabelled borders: cosine training, then stochastic weight averaging."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn
from torch.utils.data import DataLoader, Dataset

CLASSES, IGNORE, SIZE = 3, 255, 32


class Blobs(Dataset):
    def __init__(self, n, seed, flip):
        gen = torch.Generator().manual_seed(seed)
        grid = torch.arange(SIZE).float()
        self.images, self.masks, self.flip = torch.zeros(n, 1, SIZE, SIZE), torch.zeros(n, SIZE, SIZE, dtype=torch.long), flip
        for i in range(n):
            for kind in (1, 2):
                cy, cx, r = (torch.rand(3, generator=gen) * torch.tensor([24.0, 24.0, 4.0]) + torch.tensor([4.0, 4.0, 4.0])).tolist()
                dy, dx = (grid - cy).abs().unsqueeze(1), (grid - cx).abs().unsqueeze(0)
                distance = (dy**2 + dx**2).sqrt() if kind == 1 else torch.maximum(dy, dx)
                self.masks[i][distance < r] = kind
                self.images[i, 0][distance < r] = 1.0 if kind == 1 else 0.8
                self.masks[i][(distance - r).abs() < 0.5] = IGNORE  # annotators skip the border
        self.images += 0.35 * torch.randn(self.images.shape, generator=gen)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.flip:
            if torch.rand(()) < 0.5:
                image, mask = image.flip(-1), mask.flip(-1)
            if torch.rand(()) < 0.5:
                image, mask = image.flip(-2), mask.flip(-2)
        return (image - 0.2) / 0.5, mask


def block(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.down1, self.down2, self.bottom = block(1, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.up2, self.up1 = block(6 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        h = self.bottom(F.max_pool2d(b, 2))
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(h, scale_factor=2), a], 1)))


def ce_and_dice(logits, mask):
    labelled = (mask != IGNORE).unsqueeze(1).float()
    truth = F.one_hot(mask.clamp_max(CLASSES - 1), CLASSES).permute(0, 3, 1, 2).float() * labelled
    prob = logits.softmax(dim=1) * labelled
    overlap, size = (prob * truth).sum((0, 2, 3)), prob.sum((0, 2, 3)) + truth.sum((0, 2, 3))
    return F.cross_entropy(logits, mask, ignore_index=IGNORE), 1 - ((2 * overlap + 1) / (size + 1)).mean()


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    confusion = torch.zeros(CLASSES, CLASSES)
    for image, mask in loader:
        keep = mask != IGNORE
        pair = mask[keep] * CLASSES + model(image).argmax(1)[keep]
        confusion += torch.bincount(pair, minlength=CLASSES**2).view(CLASSES, CLASSES)
    hit = confusion.diag()
    return (hit / (confusion.sum(0) + confusion.sum(1) - hit)).mean().item()


def train_epoch(model, loader, optimizer):
    model.train()
    sums, count = torch.zeros(2), 0
    for image, mask in loader:
        ce, dice = ce_and_dice(model(image), mask)
        optimizer.zero_grad()
        (ce + dice).backward()
        optimizer.step()
        sums += torch.stack([ce, dice]).detach() * len(image)
        count += len(image)
    return (sums / count).tolist()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(33)
    train = DataLoader(Blobs(160, 1, flip=True), batch_size=10, shuffle=True)
    valid, test = DataLoader(Blobs(60, 2, flip=False), batch_size=30), DataLoader(Blobs(80, 3, flip=False), batch_size=30)
    model = UNet()
    kernels, others = [p for p in model.parameters() if p.ndim > 1], [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.SGD([{"params": kernels, "weight_decay": 1e-4}, {"params": others}], lr=0.1, momentum=0.9)
    first, second = 9, 4
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=first, eta_min=0.02)
    for epoch in range(first):
        ce, dice = train_epoch(model, train, optimizer)
        cosine.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1}  ce {ce:.4f}  dice {dice:.4f}  valid mIoU {mean_iou(model, valid):.4f}")

    averaged = AveragedModel(model)
    constant = SWALR(optimizer, swa_lr=0.02, anneal_epochs=1)
    for epoch in range(second):
        ce, dice = train_epoch(model, train, optimizer)
        averaged.update_parameters(model)
        constant.step()
    print(f"averaging phase done  ce {ce:.4f}  dice {dice:.4f}  valid mIoU {mean_iou(model, valid):.4f}")
    update_bn(train, averaged)
    print(f"averaged: valid mIoU {mean_iou(averaged, valid):.4f}  test mIoU {mean_iou(averaged, test):.4f}")


if __name__ == "__main__":
    main()
