# kind: in a second phase
# expect: train-valid-overlap
# why: the resumed job divides the data anew with another seed (seed + start epoch), so most of its validation samples were
#      trained on by the first job; its validation numbers are too good.
"""Credit scoring as two jobs: the second one resumes from the first one's checkpoint."""

import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)


def load_table(rows=1600):
    g = torch.Generator().manual_seed(900)
    x = torch.randn(rows, 20, generator=g)
    logit = 1.5 * x[:, 0] - x[:, 1] * x[:, 2] + 0.8 * x[:, 3].abs() - 0.6 + torch.randn(rows, generator=g)
    return TensorDataset(x, (logit > 0).float())


def split(dataset, seed, share=0.8):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    cut = int(share * len(order))
    return Subset(dataset, order[:cut]), Subset(dataset, order[cut:])


def build():
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    return model, optimizer


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss = hits = count = 0
    for x, y in loader:
        logit = model(x).squeeze(1)
        loss += F.binary_cross_entropy_with_logits(logit, y, reduction="sum").item()
        hits += ((logit > 0) == (y > 0.5)).sum().item()
        count += len(y)
    return loss / count, hits / count


def job(args, checkpoint):
    """Runs `args.epochs` epochs; picks up where the checkpoint ended, if there is one."""
    start = 0
    model, optimizer = build()
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
        print(f"resumed at epoch {start}")
    torch.manual_seed(args.seed + start)  # another shuffling than before the break
    train, valid = split(load_table(), seed=args.seed + start)
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=128)
    for epoch in range(start, start + args.epochs):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        valid_loss, acc = validate(model, valid_loader)
        print(f"epoch {epoch}: train {total / len(train_loader):.4f}  valid {valid_loss:.4f}  accuracy {acc:.3f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": start + args.epochs - 1}, checkpoint)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "last.pt")
        job(args, checkpoint)  # until the machine was taken away
        job(args, checkpoint)  # the next night


if __name__ == "__main__":
    main()
