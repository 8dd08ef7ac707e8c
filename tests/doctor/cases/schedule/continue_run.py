import argparse
import os
import tempfile

import torch
from torch import nn


def build(lr):
    torch.manual_seed(27)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    return model, torch.optim.Adam(model.parameters(), lr=lr)


def train(model, optimizer, steps):
    x = torch.randn(200, 6)
    y = (x[:, :2].prod(1)).unsqueeze(1)
    for _ in range(steps):
        rows = torch.randint(0, 200, (25,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--finetune-lr", type=float, default=1e-4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        model, optimizer = build(args.lr)
        print("pretraining", train(model, optimizer, 40))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

        model, optimizer = build(args.finetune_lr)
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print("fine-tuning", train(model, optimizer, 40))


main()
