# kind: indirection
# expect: nothing
# why: might be accused of batchnorm-of-one, stale-optimizer, accumulation-not-divided and accumulation-tail; every BatchNorm is swapped for GroupNorm before the optimizer is made, and each loss is divided by the true length of its cycle, the short last one included.
"""Images of different sizes cannot be stacked: one image per forward, sixteen per step."""
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CYCLE, EPOCHS, CLASSES = 16, 6, 4


class Blobs(Dataset):
    """Images of 10 to 18 pixels a side with one kind of mark in them."""

    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.items = [self.draw(gen) for _ in range(n)]

    @staticmethod
    def draw(gen):
        h, w = torch.randint(10, 19, (2,), generator=gen).tolist()
        kind = int(torch.randint(0, CLASSES, (1,), generator=gen))
        image = 0.8 * torch.randn(1, h, w, generator=gen)
        r = int(torch.randint(2, h - 4, (1,), generator=gen))
        c = int(torch.randint(2, w - 4, (1,), generator=gen))
        if kind == 0:
            image[0, r, c - 2:c + 4] += 2.0
        elif kind == 1:
            image[0, r - 2:r + 4, c] += 2.0
        elif kind == 2:
            for d in range(-2, 4):
                image[0, r + d, c + d] += 2.0
        else:
            image[0, r:r + 3, c:c + 3] += 2.0
        return image, kind

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def imported_backbone():
    """Stands for a network written by somebody else, with BatchNorm inside."""
    def unit(n_in, n_out, stride):
        return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())
    return nn.Sequential(unit(1, 16, 1), unit(16, 32, 2), unit(32, 32, 1),
                         nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))


def swap_norms(module, groups=4):
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.GroupNorm(groups, child.num_features))
        else:
            swap_norms(child, groups)
    return module


class SingleImageTrainer:
    def __init__(self, model, lr, steps):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 25, weight_decay=1e-3)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=lr, total_steps=steps)

    def finish_cycle(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()

    def epoch(self, loader):
        self.model.train()
        total, n = 0.0, len(loader)
        for i, (image, label) in enumerate(loader):
            start = i - i % CYCLE
            length = min(CYCLE, n - start)
            loss = F.cross_entropy(self.model(image), label)
            (loss / length).backward()
            total += loss.item()
            if i - start + 1 == length:
                self.finish_cycle()
        return total / n

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        return sum((self.model(image).argmax(1) == label).item() for image, label in loader) / len(loader)


def main():
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train, valid, test = Blobs(600, seed=1), Blobs(200, seed=2), Blobs(300, seed=3)
    train_loader = DataLoader(train, batch_size=1, shuffle=True)
    valid_loader, test_loader = DataLoader(valid, batch_size=1), DataLoader(test, batch_size=1)

    model = swap_norms(imported_backbone())
    steps = EPOCHS * -(-len(train) // CYCLE)
    trainer = SingleImageTrainer(model, lr=8e-3, steps=steps)
    for epoch in range(EPOCHS):
        loss = trainer.epoch(train_loader)
        print(f"epoch {epoch} loss {loss:.4f} valid {trainer.accuracy(valid_loader):.3f}")
    print(f"test {trainer.accuracy(test_loader):.3f}")


if __name__ == "__main__":
    main()
