# kind: in a second phase
# expect: optimizer-recreated
# why: after a clean first phase, every one of the many short curriculum stages makes a new Adam, so the moments are lost
#      every 25 steps and the bias-corrected first steps are as large as lr again.
"""The adding problem with an LSTM: warm up on short sequences, then lengthen them stage by stage."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def adding(count, length, generator=None):
    """Sum of the two marked numbers."""
    values = 2 * torch.rand(count, length, generator=generator) - 1
    first = torch.randint(0, length // 2, (count,), generator=generator)
    second = torch.randint(length // 2, length, (count,), generator=generator)
    marks = F.one_hot(first, length) + F.one_hot(second, length)
    return torch.stack([values, marks.float()], dim=-1), (values * marks).sum(1)


class Adder(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.LSTM(2, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1]).squeeze(1)


class Stage:
    def __init__(self, length, steps, lr):
        self.length, self.steps, self.lr = length, steps, lr

    def run(self, model, batch=64):
        optimizer = torch.optim.Adam(model.parameters(), lr=self.lr)
        model.train()
        total = 0.0
        for _ in range(self.steps):
            x, y = adding(batch, self.length)
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        return total / self.steps


@torch.no_grad()
def validate(model, length):
    model.eval()
    x, y = adding(512, length, torch.Generator().manual_seed(10_000 + length))
    return F.mse_loss(model(x), y).item()


def curriculum(args):
    yield Stage(6, args.warmup_steps, args.lr)
    for stage in range(args.stages):
        yield Stage(7 + stage // 2, args.stage_steps, args.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warmup-steps", type=int, default=400)
    parser.add_argument("--stages", type=int, default=18)
    parser.add_argument("--stage-steps", type=int, default=25)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(48)
    model = Adder()
    for number, stage in enumerate(curriculum(args)):
        loss = stage.run(model)
        print(f"stage {number} (length {stage.length}): loss {loss:.4f}  "
              f"valid {validate(model, stage.length):.4f}  at length 16 {validate(model, 16):.4f}")


if __name__ == "__main__":
    main()
