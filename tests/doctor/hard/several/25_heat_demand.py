# kind: several losses and optimizers
# expect: clip-of-nothing
# why: `recurrent` is a filter iterator that the optimizer has already used up; clip_grad_norm_ gets an empty sequence,
#      reports the norm 0 and clips nothing.
"""Heat demand for the next six hours; a GRU and a calendar network with separate optimizers."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def windows(start, count, history=36, ahead=6, seed=3):
    g = torch.Generator().manual_seed(seed)
    total = 6000
    hour = torch.arange(total, dtype=torch.float32)
    noise = torch.randn(total, generator=g)
    smooth = torch.zeros(total)
    for i in range(1, total):
        smooth[i] = 0.95 * smooth[i - 1] + 0.3 * noise[i]
    demand = torch.sin(2 * math.pi * hour / 24) + 0.4 * torch.sin(2 * math.pi * hour / 168) + 0.5 * smooth
    demand = demand / 0.95
    calendar = torch.stack([torch.sin(2 * math.pi * hour / 24), torch.cos(2 * math.pi * hour / 24),
                            torch.sin(2 * math.pi * hour / 168), torch.cos(2 * math.pi * hour / 168)], 1)
    idx = torch.arange(start, start + count)
    past = torch.stack([demand[i:i + history] for i in idx.tolist()]).unsqueeze(-1)
    cal = calendar[idx + history]
    future = torch.stack([demand[i + history:i + history + ahead] for i in idx.tolist()])
    return TensorDataset(past, cal, future)


class DemandModel(nn.Module):
    def __init__(self, hidden=40, ahead=6):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, ahead)
        self.calendar = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, ahead))

    def forward(self, past, cal):
        _, h = self.gru(past)
        return self.readout(h[-1]) + self.calendar(cal)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--clip", type=float, default=0.1)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(85)
    train = DataLoader(windows(0, 3072), batch_size=64, shuffle=True)
    valid = DataLoader(windows(3200, 768), batch_size=256)
    model = DemandModel()
    recurrent = filter(lambda p: p.requires_grad, [*model.gru.parameters(), *model.readout.parameters()])
    recurrent_opt = torch.optim.RMSprop(recurrent, lr=1e-3)
    calendar_opt = torch.optim.Adam(model.calendar.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(args.epochs):
        model.train()
        total = largest = 0.0
        for past, cal, future in train:
            loss = criterion(model(past, cal), future)
            recurrent_opt.zero_grad()
            calendar_opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(recurrent, args.clip)
            recurrent_opt.step()
            calendar_opt.step()
            total += loss.item()
            largest = max(largest, float(norm))
        model.eval()
        with torch.no_grad():
            err = torch.cat([(model(p, c) - f).square().mean(1) for p, c, f in valid]).mean().sqrt()
        print(f"epoch {epoch} loss {total / len(train):.4f} valid rmse {err:.4f} largest norm {largest:.3f}")


if __name__ == "__main__":
    main()
