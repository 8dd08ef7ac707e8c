"""Blobs in the plane, with the loss kept for a plot."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def main():
    torch.manual_seed(0)
    y = torch.randint(0, 4, (300,))
    x = torch.randn(300, 2) * 0.4 + torch.stack([y % 2, y // 2], 1)
    train_set, test_set = random_split(TensorDataset(x, y), [240, 60])
    train, test = DataLoader(train_set, batch_size=24, shuffle=True), DataLoader(test_set, batch_size=60)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    losses, outputs = [], []
    for epoch in range(4):
        model.train()
        total = torch.zeros(())
        for xb, yb in train:
            optimizer.zero_grad()
            logits = model(xb)
            loss = criterion(logits, yb)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            outputs.append(logits.detach().argmax(1))
            total += loss.item()
        model.eval()
        with torch.no_grad():
            kept = [criterion(model(xb), yb) for xb, yb in test]
        print(epoch, (total / len(train)).item(), torch.stack(kept).mean().item())
    print("smallest", torch.stack(losses).min().item(), "outputs", torch.cat(outputs).numel())


if __name__ == "__main__":
    main()
