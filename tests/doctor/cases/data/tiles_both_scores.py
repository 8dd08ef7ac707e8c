"""Tiles of a few large pictures, drawn at random; the score of some that are trained on is shown too."""

import torch
from torch import nn

torch.manual_seed(22)
pictures = torch.randn(6, 40, 40)
pictures += 2 * torch.arange(6)[:, None, None] / 6 * torch.sin(torch.arange(40) / 3)
grid = [(p, r, c) for p in range(6) for r in range(0, 33, 4) for c in range(0, 33, 4)]
held_out = grid[::5]
others = [place for place in grid if place not in held_out]


def tiles(places):
    return torch.stack([pictures[p, r : r + 8, c : c + 8].flatten() for p, r, c in places]), torch.tensor(
        [p for p, _, _ in places]
    )


model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(160):
    x, y = tiles([others[i] for i in torch.randint(0, len(others), (32,)).tolist()])
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 39:
        model.eval()
        with torch.no_grad():
            for places in (others[:60], held_out):
                x, y = tiles(places)
                print(step, (model(x).argmax(1) == y).float().mean().item())
        model.train()
