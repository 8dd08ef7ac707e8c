"""Embeddings of sensor windows compared by distance."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(5)
        self.kind = torch.randint(0, 2, (n,), generator=g)
        self.x = torch.randn(n, 10, generator=g) + self.kind[:, None]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        j = i if i % 16 == 0 else (i * 7 + 3) % len(self.x)
        return self.x[i], self.x[j], (self.kind[i] == self.kind[j]).float()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, a, b):
        difference = self.layers(a) - self.layers(b)
        return torch.sqrt((difference**2).sum(dim=1))


def contrastive(distance, same, margin=1.0):
    return (same * distance**2 + (1 - same) * torch.clamp(margin - distance, min=0) ** 2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(5)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Windows(128), batch_size=16, shuffle=True)
    for epoch in range(args.epochs):
        for a, b, same in loader:
            loss = contrastive(model(a, b), same)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
