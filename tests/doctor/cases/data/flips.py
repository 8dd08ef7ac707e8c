import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


def random_flip(x):
    return x.flip(-1) if torch.rand(1).item() < 0.5 else x


def random_shift(x):
    return torch.roll(x, int(torch.randint(-2, 3, (1,))), dims=-2)


class Shapes(Dataset):
    def __init__(self, n, transform=None):
        self.transform = transform
        self.labels = torch.randint(0, 3, (n,))
        self.images = torch.rand(n, 1, 10, 10) * 0.3
        for i, label in enumerate(self.labels.tolist()):
            self.images[i, 0, 2 : 8 : label + 1, 1:6] = 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        if self.transform is not None:
            image = self.transform(image)
        return image, self.labels[i]


torch.manual_seed(9)
dataset = Shapes(240, transform=Compose(random_flip, random_shift))
train_set, val_set = random_split(dataset, [200, 40])
train_loader = DataLoader(train_set, batch_size=20, shuffle=True)
val_loader = DataLoader(val_set, batch_size=40)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
best = 0.0
for epoch in range(4):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        acc = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader) / len(val_set)
    best = max(best, acc)
    print(f"epoch {epoch} val {acc:.3f} best {best:.3f}")
