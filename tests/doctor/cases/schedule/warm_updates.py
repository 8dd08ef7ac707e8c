"""Warm-up and linear decay, planned in updates."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 8


def plan(warmup, total):
    def factor(step):
        if step < warmup:
            return step / max(1, warmup)
        return max(0.0, (total - step) / max(1, total - warmup))

    return factor


def main():
    torch.manual_seed(0)
    x = torch.randn(320, 8)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    total = EPOCHS * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, plan(total // 10, total))
    for epoch in range(EPOCHS):
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item(), scheduler.get_last_lr())


if __name__ == "__main__":
    main()
