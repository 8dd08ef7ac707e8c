# kind: in a second phase
# expect: nothing
# like: lr-overwritten-by-load
# why: load_state_dict does bring back the old rate, but the cool-down job writes its own rate into every group right
#      afterwards, before the first step, and keeps only the moments.
"""Traffic-flow nowcasting on a road graph: main job, then a cool-down job from its checkpoint."""
import argparse
import io

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
NODES, PAST = 12, 8


def roads():
    ring = torch.eye(NODES).roll(1, 0)
    adjacency = ring + ring.t() + torch.eye(NODES)
    return adjacency / adjacency.sum(1, keepdim=True)


def flows(count, adjacency, generator):
    state = torch.randn(count, NODES, generator=generator)
    frames = []
    for t in range(PAST + 1):
        frames.append(state)
        state = 0.85 * state @ adjacency.t().roll(1, 1) + 0.4 * torch.sin(state) \
            + 0.2 * torch.randn(count, NODES, generator=generator)
    series = torch.stack(frames, dim=2)
    return series[:, :, :PAST], series[:, :, PAST]


class GraphForecast(nn.Module):
    def __init__(self, adjacency, width=40):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.inp = nn.Linear(PAST, width)
        self.hops = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(2)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for hop in self.hops:
            h = h + torch.relu(hop(torch.cat([h, self.adjacency @ h], dim=-1)))
        return self.out(h).squeeze(-1)


def fit(name, model, optimizer, train, valid, epochs):
    x, y = train
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            loss = F.smooth_l1_loss(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            mae = (model(valid[0]) - valid[1]).abs().mean().item()
        print(f"{name} {epoch}: loss {total / len(x):.5f}  valid MAE {mae:.4f}  lr {optimizer.param_groups[0]['lr']:.0e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--cooldown-lr", type=float, default=3e-4)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(71)
    generator = torch.Generator().manual_seed(71)
    adjacency = roads()
    train, valid = flows(3200, adjacency, generator), flows(640, adjacency, generator)

    model = GraphForecast(adjacency)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    fit("main", model, optimizer, train, valid, args.epochs)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)

    file.seek(0)
    saved = torch.load(file)
    model = GraphForecast(adjacency)
    model.load_state_dict(saved["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=args.cooldown_lr)
    optimizer.load_state_dict(saved["optimizer"])
    for group in optimizer.param_groups:
        group["lr"] = args.cooldown_lr
    fit("cool-down", model, optimizer, train, valid, args.epochs)


if __name__ == "__main__":
    main()
