"""Frame classification with a small recurrent network."""

import argparse

import torch
from torch import nn, optim


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=36)
    p.add_argument("--clip", type=float, default=0.25)
    p.add_argument("--lr", type=float, default=1e-2)
    return p.parse_args()


class FrameNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(8, 16, batch_first=True)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(self.rnn(x)[0])


def sample(batch=8, frames=10):
    y = torch.randint(0, 5, (batch, frames))
    x = torch.randn(batch, frames, 8)
    x[..., :5] += 2 * nn.functional.one_hot(y, 5)
    return x, y


def main():
    args = get_args()
    torch.manual_seed(2)
    model = FrameNet()
    optimizer = optim.RMSprop(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    model.train()
    for it in range(1, args.iters + 1):
        x, y = sample()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out.transpose(1, 2), y)
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        loss.backward()
        optimizer.step()
        if it % 12 == 0:
            print(f"iter {it} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
