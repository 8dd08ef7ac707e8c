# kind: in a second phase
# expect: nothing
# why: phase 1 trains a new head over a loaded and frozen trunk kept in eval mode by an overridden train(); phase 2 unfreezes it on purpose with a fresh optimizer, parameter groups and a smaller rate. strict=False only skips the old head, and the result is checked.
"""Transfer learning with gradual unfreezing: source pretraining, head warm-up, then discriminative fine-tuning."""
import copy

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)

DIM, HID = 16, 40
MIX = torch.randn(DIM, 8)
READ_OLD, READ_NEW = torch.randn(8, 6), torch.randn(8, 3)


def make(n, read, shift=0.0):
    x = torch.randn(n, DIM) + shift
    return x, (torch.tanh(x @ MIX / 3) @ read).argmax(1)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(DIM, HID), nn.BatchNorm1d(HID), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HID, HID), nn.ReLU())
        self.head = nn.Linear(HID, classes)
        self.trunk_frozen = False

    def set_frozen(self, flag):
        self.trunk_frozen = flag
        for p in self.trunk.parameters():
            p.requires_grad = not flag

    def train(self, mode=True):
        super().train(mode)
        if self.trunk_frozen:
            self.trunk.eval()
        return self

    def forward(self, x):
        return self.head(self.trunk(x))


def epochs(model, optimizer, data, count, scheduler=None, batch=64):
    x, y = data
    for _ in range(count):
        model.train()
        order = torch.randperm(len(x))
        for idx in order.split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main():
    source = Net(6)
    opt = torch.optim.Adam(source.parameters(), lr=3e-3)
    epochs(source, opt, make(2048, READ_OLD), 8)
    print(f"source accuracy {accuracy(source, make(800, READ_OLD)):.3f}")

    train, test = make(960, READ_NEW, 0.3), make(800, READ_NEW, 0.3)
    model = Net(3)
    kept = {k: v for k, v in copy.deepcopy(source.state_dict()).items() if k.startswith("trunk.")}
    result = model.load_state_dict(kept, strict=False)
    assert set(result.missing_keys) == {"head.weight", "head.bias"} and not result.unexpected_keys

    model.set_frozen(True)
    opt = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    loss = epochs(model, opt, train, 8)
    print(f"head only: loss {loss:.3f} accuracy {accuracy(model, test):.3f}")

    model.set_frozen(False)
    opt = torch.optim.AdamW([
        {"params": model.trunk.parameters(), "lr": 1e-3},
        {"params": model.head.parameters(), "lr": 3e-3},
    ], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=15)
    loss = epochs(model, opt, train, 15, sched)
    print(f"fine-tuned: loss {loss:.3f} accuracy {accuracy(model, test):.3f}")


if __name__ == "__main__":
    main()
