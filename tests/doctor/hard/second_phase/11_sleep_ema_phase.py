# kind: in a second phase
# expect: nothing
# like: averaged-batchnorm-stale
# why: the average has no buffers of its own and update_bn is not called, but AveragedModel copies the buffers of the model at
#      every update: the statistics are those of the last step, to which an average over some 33 steps is close.
"""Sleep-stage labelling of night signals (1-D segmentation); after some epochs an EMA takes over evaluation."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
STAGES = 4


def nights(count, generator, length=64):
    stage = torch.zeros(count, length, dtype=torch.long)
    current = torch.randint(0, STAGES, (count,), generator=generator)
    for t in range(length):
        change = torch.rand(count, generator=generator) < 0.08
        current = torch.where(change, torch.randint(0, STAGES, (count,), generator=generator), current)
        stage[:, t] = current
    speed = 0.4 + 0.55 * stage.float()
    wave = torch.sin(speed.cumsum(1) + 6.28 * torch.rand(count, 1, generator=generator))
    tone = 0.35 * (stage.float() - 1.5)
    x = torch.stack([wave, tone], dim=1) + 0.5 * torch.randn(count, 2, length, generator=generator)
    return TensorDataset(x, stage)


def conv(cin, cout, dilation):
    return nn.Sequential(
        nn.Conv1d(cin, cout, 5, padding=2 * dilation, dilation=dilation), nn.BatchNorm1d(cout), nn.ReLU()
    )


class StageNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.layers = nn.Sequential(conv(2, width, 1), conv(width, width, 2), conv(width, width, 4))
        self.out = nn.Conv1d(width, STAGES, 1)

    def forward(self, x):
        return self.out(self.layers(x))


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    x, y = data.tensors
    return (model(x).argmax(1) == y).float().mean().item()


def train_epoch(model, optimizer, loader, average=None):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if average is not None:
            average.update_parameters(model)
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warm-epochs", type=int, default=1)
    parser.add_argument("--ema-epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    torch.manual_seed(24)
    generator = torch.Generator().manual_seed(24)
    train, valid = nights(1024, generator), nights(256, generator)
    loader = DataLoader(train, batch_size=16, shuffle=True)
    model = StageNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr / 20)  # a gentle start

    for epoch in range(args.warm_epochs):
        loss = train_epoch(model, optimizer, loader)
        print(f"warm epoch {epoch}: loss {loss:.4f}  accuracy {accuracy(model, valid):.3f}")
    for group in optimizer.param_groups:
        group["lr"] = args.lr
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.97))
    for epoch in range(args.ema_epochs):
        loss = train_epoch(model, optimizer, loader, average)
        print(f"ema epoch {epoch}: loss {loss:.4f}  accuracy of the average {accuracy(average, valid):.3f}")


if __name__ == "__main__":
    main()
