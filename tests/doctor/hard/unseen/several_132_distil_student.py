# kind: several
# expect: kl-on-probabilities
# why: The distillation loss is a partial of kl_div with log_target=True, but DistilLoss gives it the teacher's softmax
#      probabilities instead of their logarithms.
"""Distil a wide classifier into a narrow one on synthetic spectra."""
import argparse
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BANDS, CLASSES = 40, 10


def mlp(width, depth, dropout=0.0):
    layers, size = [], BANDS
    for _ in range(depth):
        layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(dropout)]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, CLASSES))


def spectra(n, gen, prototypes):
    """Each spectrum is a class prototype mixed with a second, weaker one."""
    label = torch.randint(0, CLASSES, (n,), generator=gen)
    other = torch.randint(0, CLASSES, (n,), generator=gen)
    share = 0.5 * torch.rand(n, 1, generator=gen)
    x = (1 - share) * prototypes[label] + share * prototypes[other]
    return TensorDataset(x + 0.7 * torch.randn(n, BANDS, generator=gen), label)


class HardLoss:
    def __call__(self, logits, x, label):
        return F.cross_entropy(logits, label)


class DistilLoss:
    """alpha * T^2 * KL(teacher || student) + (1 - alpha) * cross-entropy."""

    divergence = staticmethod(partial(F.kl_div, reduction="batchmean", log_target=True))

    def __init__(self, teacher, temperature, alpha):
        self.teacher, self.temperature, self.alpha = teacher, temperature, alpha

    @torch.no_grad()
    def soft_targets(self, x):
        self.teacher.eval()
        return F.softmax(self.teacher(x) / self.temperature, dim=1)

    def __call__(self, logits, x, label):
        soft = self.divergence(F.log_softmax(logits / self.temperature, dim=1), self.soft_targets(x))
        return self.alpha * self.temperature**2 * soft + (1 - self.alpha) * F.cross_entropy(logits, label)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right, n = 0, 0
    for x, label in loader:
        right += (model(x).argmax(1) == label).sum().item()
        n += len(label)
    return right / n


def fit(name, model, criterion, train_loader, valid_loader, epochs, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        model.train()
        for x, label in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), x, label)
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(f"{name} epoch {epoch:2d}  accuracy {accuracy(model, valid_loader):.3f}")
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--teacher-epochs", type=int, default=8)
    parser.add_argument("--student-epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    prototypes = torch.randn(CLASSES, BANDS, generator=gen)
    train_loader = DataLoader(spectra(3072, gen, prototypes), args.batch_size, shuffle=True)
    valid_loader = DataLoader(spectra(1024, gen, prototypes), 256)
    teacher = fit("teacher", mlp(256, 2, 0.2), HardLoss(), train_loader, valid_loader, args.teacher_epochs, 1e-3)
    teacher.requires_grad_(False)
    criterion = DistilLoss(teacher, args.temperature, args.alpha)
    fit("student", mlp(24, 1), criterion, train_loader, valid_loader, args.student_epochs, 3e-3)


if __name__ == "__main__":
    main()
