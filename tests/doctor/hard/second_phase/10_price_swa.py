# kind: in a second phase
# expect: nothing
# like: averaged-batchnorm-stale
# why: the averaged network (stochastic weight averaging with BatchNorm) is evaluated only after update_bn has recomputed
#      its statistics on the training data.
"""House-price regression with an SWA phase at the end."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def houses(count, generator):
    area = 40 + 160 * torch.rand(count, generator=generator)
    age = 80 * torch.rand(count, generator=generator)
    rooms = (area / 25 + torch.randn(count, generator=generator)).clamp(1).round()
    place = torch.randn(count, 2, generator=generator)
    extra = torch.randn(count, 5, generator=generator)
    price = 2.5 * area - 1.2 * age + 20 * torch.exp(-place.pow(2).sum(1)) * rooms + 8 * extra[:, 0] * extra[:, 1]
    price = price + 8 * torch.randn(count, generator=generator)
    return torch.cat([torch.stack([area, age, rooms], 1), place, extra], dim=1), price


class PriceNet(nn.Module):
    def __init__(self, features, width=64):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(features, width), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.inner(x).squeeze(1)


@torch.no_grad()
def rmse(model, x, y):
    model.eval()
    return F.mse_loss(model(x), y).sqrt().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--swa-start", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(7)
    x, y = houses(4096 + 1024, torch.Generator().manual_seed(7))
    x = (x - x[:4096].mean(0)) / x[:4096].std(0)
    y = (y - y[:4096].mean()) / y[:4096].std()
    loader = DataLoader(TensorDataset(x[:4096], y[:4096]), batch_size=64, shuffle=True)
    vx, vy = x[4096:], y[4096:]

    model = PriceNet(x.size(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.swa_start, eta_min=0.005)
    averaged, swa_schedule = None, None
    for epoch in range(args.epochs):
        if epoch == args.swa_start:
            averaged = AveragedModel(model)
            swa_schedule = SWALR(optimizer, swa_lr=0.01, anneal_epochs=2)
        model.train()
        total = 0.0
        for bx, by in loader:
            loss = F.mse_loss(model(bx), by)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        line = f"epoch {epoch}: loss {total / len(loader):.4f}  valid rmse {rmse(model, vx, vy):.4f}"
        if averaged is None:
            cosine.step()
        else:
            averaged.update_parameters(model)
            swa_schedule.step()
            update_bn(loader, averaged)
            line += f"  averaged {rmse(averaged, vx, vy):.4f}"
        print(line)


if __name__ == "__main__":
    main()
