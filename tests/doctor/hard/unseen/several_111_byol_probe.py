# kind: several
# expect: nothing
# why: might be accused of teacher-shares-weights, frozen-parameter-moves, frozen-batchnorm-moves and optimizer-recreated; the target network is a deep copy moved by lerp_ and uses batch statistics as BYOL does, and the probe is another model with its own optimizer.
"""BYOL on feature vectors, then a linear probe on frozen features."""
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--probe-epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--tau", type=float, default=0.98)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def draw(n, prototypes, gen):
    labels = torch.randint(0, len(prototypes), (n,), generator=gen)
    x = prototypes[labels] + 0.9 * torch.randn(n, prototypes.shape[1], generator=gen)
    return x, labels


def mlp(n_in, hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, n_out))


class Branch(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.encoder = mlp(dim, 192, 64)
        self.projector = mlp(64, 128, 32)

    def forward(self, x):
        return self.projector(self.encoder(x))


def view(x):
    """One random view: some features masked, the rest jittered."""
    keep = (torch.rand_like(x) > 0.2).to(x.dtype)
    return x * keep + 0.2 * torch.randn_like(x)


def byol_loss(prediction, target):
    return (2 - 2 * F.cosine_similarity(prediction, target, dim=1)).mean()


@torch.no_grad()
def move_target(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.lerp_(o, 1 - tau)


def pretrain(args, x_train):
    online, predictor = Branch(x_train.shape[1]), mlp(32, 128, 32)
    target = copy.deepcopy(online).requires_grad_(False)
    params = [*online.parameters(), *predictor.parameters()]
    optimizer = torch.optim.Adam(params, lr=args.lr)
    loader = DataLoader(TensorDataset(x_train), batch_size=args.batch_size, shuffle=True, drop_last=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs * len(loader))
    for epoch in range(args.epochs):
        online.train(), predictor.train(), target.train()
        total, seen = 0.0, 0
        for (x,) in loader:
            a, b = view(x), view(x)
            with torch.no_grad():
                target_a, target_b = target(a), target(b)
            loss = byol_loss(predictor(online(a)), target_b) + byol_loss(predictor(online(b)), target_a)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            move_target(target, online, args.tau)
            total, seen = total + loss.item() * len(x), seen + len(x)
        print(f"byol {epoch:2d} loss {total / seen:.4f}")
    return online.encoder


@torch.no_grad()
def features(encoder, x):
    encoder.eval()
    return torch.cat([encoder(chunk) for chunk in x.split(512)])


def train_probe(args, train, classes):
    probe = nn.Linear(train[0].shape[1], classes)
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(TensorDataset(*train), batch_size=args.batch_size, shuffle=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.probe_epochs)
    for _ in range(args.probe_epochs):
        probe.train()
        for f, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(probe(f), y).backward()
            optimizer.step()
        scheduler.step()
    return probe


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    prototypes = 0.35 * torch.randn(10, 64, generator=gen)
    (x_train, y_train), (x_test, y_test) = draw(5000, prototypes, gen), draw(1500, prototypes, gen)
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_test = (x_train - mean) / std, (x_test - mean) / std

    encoder = pretrain(args, x_train).requires_grad_(False)
    f_train, f_test = features(encoder, x_train), features(encoder, x_test)
    f_mean, f_std = f_train.mean(0), f_train.std(0) + 1e-6
    probe = train_probe(args, ((f_train - f_mean) / f_std, y_train), classes=10)
    probe.eval()
    with torch.no_grad():
        accuracy = (probe((f_test - f_mean) / f_std).argmax(1) == y_test).float().mean().item()
    print(f"probe accuracy on test: {accuracy:.3f}")


if __name__ == "__main__":
    main()
