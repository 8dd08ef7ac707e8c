# kind: numbers
# expect: nothing
# like: loss-broadcast
# why: the home-made Cox loss compares times (batch, 1) with (1, batch) on purpose: the risk set of each patient is a row
#      of that matrix. Patients meet only in the loss, not in the model.
"""Cox proportional hazards with a neural risk score."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def patients(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    risk = x[:, 0] + 0.8 * x[:, 1] * x[:, 2] - 0.6 * torch.relu(x[:, 3])
    time = -torch.log(torch.rand(n, generator=g).clamp(min=1e-6)) * torch.exp(-risk)
    censor = -torch.log(torch.rand(n, generator=g).clamp(min=1e-6)) * 2.5
    return TensorDataset(x, torch.minimum(time, censor), (time <= censor).float())


class RiskScore(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, width), nn.SELU(), nn.Linear(width, width), nn.SELU(),
                                 nn.Linear(width, 1, bias=False))

    def forward(self, x):
        return self.net(x).squeeze(1)


def cox_loss(score, time, event):
    at_risk = time[None, :] >= time[:, None]
    pool = torch.where(at_risk, score[None, :], torch.full((), -1e9))
    partial = score - torch.logsumexp(pool, dim=1)
    return -(partial * event).sum() / event.sum().clamp(min=1)


def concordance(score, time, event):
    earlier = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    agree = score[:, None] > score[None, :]
    return (agree & earlier).sum().item() / earlier.sum().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(103)
    train = DataLoader(patients(3840, 1), batch_size=args.batch, shuffle=True, drop_last=True)
    x_val, t_val, e_val = patients(800, 2).tensors
    model = RiskScore()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, time, event in train:
            loss = cox_loss(model(x), time, event)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            c = concordance(model(x_val), t_val, e_val)
        print(f"epoch {epoch:2d} partial likelihood {total / len(train):.4f} valid concordance {c:.4f}")


if __name__ == "__main__":
    main()
