import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def get_loaders(batch_size, seed):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(500, 8))).float()
    y = x @ torch.linspace(-1, 1, 8) + 0.2 * torch.from_numpy(rng.normal(size=500)).float()
    dataset = TensorDataset(x, y)
    indices = rng.permutation(len(dataset)).tolist()
    train_set = Subset(dataset, indices[:400])
    val_set = Subset(dataset, indices[:100])
    return DataLoader(train_set, batch_size=batch_size, shuffle=True), DataLoader(val_set, batch_size=batch_size)


def train_one_epoch(model, loader, loss_fn, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, loader, loss_fn):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += loss_fn(model(x).squeeze(1), y).item() * len(x)
        n += len(x)
    return total / n


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--batch-size", default=32, type=int)
    args = parser.parse_args()
    torch.manual_seed(0)
    train_loader, val_loader = get_loaders(args.batch_size, 0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_fn = nn.MSELoss()
    for epoch in range(args.epochs):
        train_one_epoch(model, train_loader, loss_fn, optimizer)
        print(f"epoch {epoch}: validation {validate(model, val_loader, loss_fn):.4f}")
