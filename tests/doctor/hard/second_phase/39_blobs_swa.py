# kind: in a second phase
# expect: averaged-batchnorm-stale
# why: after the SWA phase update_bn() is run on the live network instead of the averaged one; the averaged weights are
#   evaluated with BatchNorm statistics copied from the live network.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=9)
parser.add_argument("--swa-from", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--swa-lr", type=float, default=0.08)
parser.add_argument("--seed", type=int, default=6)


def cells(count, gen, size=32):
    axis = torch.arange(size).float()
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    mask = torch.zeros(count, size, size)
    for _ in range(3):
        cy, cx = (torch.rand(count, 1, 1, generator=gen) * (size - 8) + 4 for _ in range(2))
        r = torch.rand(count, 1, 1, generator=gen) * 4 + 2
        mask = torch.maximum(mask, ((yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2).float())
    slope = torch.randn(count, 1, 1, generator=gen) * (xx - size / 2) / size
    image = mask + slope + 0.6 * torch.randn(count, size, size, generator=gen)
    image = (image - image.mean((1, 2), keepdim=True)) / image.std((1, 2), keepdim=True)
    return image.unsqueeze(1), mask.unsqueeze(1)


def unit(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.top = unit(1, 8)
        self.down = unit(8, 16, stride=2)
        self.mid = unit(16, 16)
        self.up = unit(16 + 8, 8)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.top(x)
        b = self.mid(self.down(a))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.last(self.up(torch.cat([a, b], 1)))


@torch.no_grad()
def dice(net, loader):
    net.eval()
    both = either = 0.0
    for image, mask in loader:
        guess = (net(image) > 0).float()
        both += (2 * guess * mask).sum().item()
        either += (guess + mask).sum().item()
    return both / either


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(*cells(768, gen)), batch_size=24, shuffle=True)
    valid = DataLoader(TensorDataset(*cells(128, gen)), batch_size=64)

    net = TinyUNet()
    swa_net = AveragedModel(net)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    warm = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.swa_from, eta_min=0.02)
    constant = SWALR(opt, swa_lr=args.swa_lr, anneal_epochs=1)
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for image, mask in train:
            opt.zero_grad()
            loss = bce(net(image), mask)
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch >= args.swa_from:
            swa_net.update_parameters(net)
            constant.step()
        else:
            warm.step()
        print(f"epoch {epoch}  loss {total / len(train):.4f}  dice {dice(net, valid):.4f}")

    update_bn(train, net)
    print(f"averaged: dice {dice(swa_net, valid):.4f}")


if __name__ == "__main__":
    main()
