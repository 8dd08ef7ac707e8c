# kind: without a DataLoader
# expect: gradients-discarded
# why: the step comes after every fourth chunk, but zero_grad is called before each chunk, so the gradients of three of
#      four chunks are cleared before any step used them.
"""World model of a cart from a replay buffer; four chunks of transitions make one update."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


class Replay:
    def __init__(self, size, dim, g):
        self.rows, self.size, self.fill, self.at, self.g = torch.zeros(size, dim), size, 0, 0, g

    def push(self, rows):
        idx = (self.at + torch.arange(len(rows))) % self.size
        self.rows[idx] = rows
        self.at = int((self.at + len(rows)) % self.size)
        self.fill = min(self.size, self.fill + len(rows))

    def chunks(self, count, n):
        for _ in range(count):
            yield self.rows[torch.randint(0, self.fill, (n,), generator=self.g)]


class Carts:
    """A fleet of carts with friction and a spring, pushed at random."""

    def __init__(self, n, g):
        self.g, self.s = g, torch.randn(n, 2, generator=g)

    def run(self, steps):
        out = []
        for _ in range(steps):
            a = 2 * torch.rand(len(self.s), 1, generator=self.g) - 1
            q, v = self.s.split(1, 1)
            acc = 3 * a - 1.5 * torch.tanh(2 * v) - torch.sin(2 * q)
            nxt = torch.cat([q + 0.1 * v, v + 0.1 * acc], 1) + 0.005 * torch.randn(len(self.s), 2, generator=self.g)
            out.append(torch.cat([self.s, a, (nxt - self.s) / 0.15], 1))
            lost = (nxt.abs() > 3).any(1, keepdim=True) | (torch.rand(len(nxt), 1, generator=self.g) < 0.05)
            self.s = torch.where(lost, torch.randn(nxt.shape, generator=self.g), nxt)
        return torch.cat(out)


def loss_of(model, rows):
    return F.mse_loss(model(rows[:, :3]), rows[:, 3:])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=400)
    ap.add_argument("--chunks", type=int, default=4)
    ap.add_argument("--chunk", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(117)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1170)
    carts, buffer = Carts(32, g), Replay(8000, 5, g)
    buffer.push(carts.run(20))
    held = Carts(32, torch.Generator().manual_seed(9)).run(20)
    model = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    run = 0.0
    for update in range(1, args.updates + 1):
        buffer.push(carts.run(4))
        model.train()
        for rows in buffer.chunks(args.chunks, args.chunk):
            opt.zero_grad()
            loss = loss_of(model, rows) / args.chunks
            loss.backward()
            run += loss.item()
        opt.step()
        if update % 50 == 0:
            model.eval()
            with torch.no_grad():
                v = loss_of(model, held).item()
            print(f"update {update} loss {run / 50:.4f} held-out {v:.4f} buffer {buffer.fill}")
            run = 0.0


if __name__ == "__main__":
    main()
