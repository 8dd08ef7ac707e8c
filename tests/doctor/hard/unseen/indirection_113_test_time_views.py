# kind: indirection
# expect: nothing
# why: might be accused of augmented-validation, nll-on-unnormalised and softmax-before-cross-entropy; the views at test time are a fixed list, the mean of their probabilities is turned into logarithms before NLL, and training feeds logits to cross-entropy.
"""Random flips and shifts in training, a fixed set of views averaged in evaluation."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

SIZE, CLASSES = 16, 5


class Stains(Dataset):
    """Raw images; the class is how many stains of which width there are."""

    spec = [(1, 1.0), (1, 2.2), (3, 1.0), (2, 1.6), (5, 0.8)]

    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, CLASSES, (n,), generator=gen)
        grid = torch.arange(SIZE, dtype=torch.float32)
        images = []
        for label in self.labels.tolist():
            count, width = self.spec[label]
            centre = 2 + (SIZE - 4) * torch.rand(count, 2, generator=gen)
            rows = torch.exp(-((grid - centre[:, :1]) ** 2) / (2 * width ** 2))
            cols = torch.exp(-((grid - centre[:, 1:]) ** 2) / (2 * width ** 2))
            images.append((rows[:, :, None] * cols[:, None, :]).sum(0))
        self.images = torch.stack(images)[:, None] + 0.25 * torch.randn(n, 1, SIZE, SIZE, generator=gen)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class Transformed(Dataset):
    def __init__(self, base, transform):
        self.base, self.transform = base, transform

    def __len__(self):
        return len(self.base)

    def __getitem__(self, i):
        image, label = self.base[i]
        return self.transform(image), label


class Normalise:
    def __init__(self, images):
        self.mean, self.std = images.mean(), images.std()

    def __call__(self, image):
        return (image - self.mean) / self.std


class RandomView:
    def __init__(self, normalise):
        self.normalise = normalise

    def __call__(self, image):
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        if torch.rand(()) < 0.5:
            image = image.flip(-2)
        dy, dx = torch.randint(-1, 2, (2,)).tolist()
        return self.normalise(image.roll((dy, dx), dims=(-2, -1)))


FIXED_VIEWS = [lambda x: x, lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.flip(-1, -2),
               lambda x: x.roll(1, -1), lambda x: x.roll(-1, -1)]


class ViewAverage(nn.Module):
    """Log of the mean probability over the fixed views."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        probabilities = torch.stack([self.model(view(x)).softmax(dim=1) for view in FIXED_VIEWS])
        return probabilities.mean(0).clamp_min(1e-8).log()


@torch.no_grad()
def evaluate(log_probability, loader):
    log_probability.eval()
    loss = hits = count = 0
    for x, y in loader:
        out = log_probability(x)
        loss += F.nll_loss(out, y, reduction="sum").item()
        hits += (out.argmax(1) == y).sum().item()
        count += len(y)
    return loss / count, hits / count


def main():
    torch.set_num_threads(1)
    torch.manual_seed(17)
    pool = Stains(2800, seed=40)
    order = torch.randperm(len(pool)).tolist()
    train_part, valid_part = Subset(pool, order[:2200]), Subset(pool, order[2200:])
    normalise = Normalise(pool.images[order[:2200]])
    train_loader = DataLoader(Transformed(train_part, RandomView(normalise)), batch_size=64, shuffle=True, drop_last=True)
    valid_loader = DataLoader(Transformed(valid_part, normalise), batch_size=150)
    test_loader = DataLoader(Transformed(Stains(600, seed=41), normalise), batch_size=150)

    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, CLASSES))
    plain, averaged = nn.Sequential(net, nn.LogSoftmax(dim=1)), ViewAverage(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        net.train()
        for x, y in train_loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch} one view %.3f %.3f views %.3f %.3f" % (*evaluate(plain, valid_loader), *evaluate(averaged, valid_loader)))
    print("test, views averaged: loss %.3f accuracy %.3f" % evaluate(averaged, test_loader))


if __name__ == "__main__":
    main()
