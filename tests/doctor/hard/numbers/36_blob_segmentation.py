# kind: numbers
# expect: batch-mixed
# why: the hand-written group norm reshapes (B, C, H, W) to (groups, -1), which cuts the batch and not the
#   channels into groups; every group holds several whole images that share their statistics.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Blobs(Dataset):
    def __init__(self, count, seed, side=24):
        g = torch.Generator().manual_seed(seed)
        ax = torch.arange(side, dtype=torch.float32)
        yy, xx = torch.meshgrid(ax, ax, indexing="ij")
        cy, cx = (torch.rand(2, count, 2, 1, 1, generator=g) * (side - 8) + 4)
        radius = torch.rand(count, 2, 1, 1, generator=g) * 3 + 2.5
        inside = ((yy - cy) ** 2 + (xx - cx) ** 2) < radius ** 2
        mask = inside.any(1, keepdim=True).float()
        ramp = torch.rand(count, 1, 1, 1, generator=g) * (xx / side) * 1.5
        image = mask * 1.2 + ramp + 0.6 * torch.randn(count, 1, side, side, generator=g)
        self.image, self.mask = image, mask

    def standardise(self, mean, std):
        self.image = (self.image - mean) / std
        return self

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.mask[i]


class ChannelGroups(nn.Module):
    """Group normalisation with a learned gain and offset per channel."""

    def __init__(self, groups, channels, eps=1e-5):
        super().__init__()
        self.groups, self.eps = groups, eps
        self.gain = nn.Parameter(torch.ones(channels))
        self.offset = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        g = x.reshape(self.groups, -1)
        var, mean = torch.var_mean(g, dim=1, keepdim=True, correction=0)
        x = ((g - mean) * torch.rsqrt(var + self.eps)).reshape(x.shape)
        return x * self.gain[:, None, None] + self.offset[:, None, None]


class Segmenter(nn.Module):
    def __init__(self, width=16, groups=4):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.n1 = ChannelGroups(groups, width)
        self.c2 = nn.Conv2d(width, width, 3, padding=2, dilation=2, bias=False)
        self.n2 = ChannelGroups(groups, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = x + F.relu(self.n2(self.c2(x)))
        return self.head(x)


def soft_dice(logits, mask, eps=1.0):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    overlap = (p * m).sum(1)
    return (1 - (2 * overlap + eps) / (p.sum(1) + m.sum(1) + eps)).mean()


def criterion(logits, mask):
    return F.binary_cross_entropy_with_logits(logits, mask) + soft_dice(logits, mask)


def iou(model, loader):
    model.eval()
    hit = union = 0.0
    with torch.no_grad():
        for image, mask in loader:
            pred = model(image) > 0
            truth = mask > 0.5
            hit += (pred & truth).sum().item()
            union += (pred | truth).sum().item()
    return hit / max(union, 1.0)


if __name__ == "__main__":
    torch.manual_seed(21)
    train_set, valid_set = Blobs(640, seed=1), Blobs(128, seed=2)
    mean, std = train_set.image.mean(), train_set.image.std()
    train_loader = DataLoader(train_set.standardise(mean, std), batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid_set.standardise(mean, std), batch_size=32)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for image, mask in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(image), mask)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(image)
        print(f"epoch {epoch} loss {total / len(train_set):.4f} iou {iou(model, valid_loader):.3f}")
