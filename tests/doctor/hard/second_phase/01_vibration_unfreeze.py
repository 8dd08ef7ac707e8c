# kind: in a second phase
# expect: parameter-not-optimized
# why: when the encoder is unfrozen after five epochs, the optimizer still holds the head only; the encoder gets gradients
#      from then on and never moves.
"""Bearing fault detection: denoising pretraining, head training, then gradual unfreezing."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def vibration(count, generator, length=64):
    t = torch.arange(length) / length
    fault = torch.randint(0, 4, (count,), generator=generator)
    base = torch.sin(6.28 * 5 * t + 6.28 * torch.rand(count, 1, generator=generator))
    extra = torch.sin(6.28 * (9 + 3 * fault[:, None]) * t + 6.28 * torch.rand(count, 1, generator=generator))
    signal = base + 0.6 * extra + 0.3 * torch.randn(count, length, generator=generator)
    return signal / 0.9, fault


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.GroupNorm(4, 16), nn.GELU(),
            nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.GroupNorm(4, 24), nn.GELU(),
        )

    def forward(self, x):
        return self.net(x.unsqueeze(1))


class Classifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.head(self.encoder(x).abs().mean(-1))


def pretrain(encoder, loader, epochs):
    decoder = nn.Sequential(nn.ConvTranspose1d(24, 16, 4, 2, 1), nn.GELU(), nn.ConvTranspose1d(16, 1, 4, 2, 1))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
    for epoch in range(epochs):
        total = 0.0
        for x, _ in loader:
            loss = F.mse_loss(decoder(encoder(x + 0.3 * torch.randn_like(x))).squeeze(1), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"pretrain {epoch}: reconstruction {total / len(loader):.4f}")


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unfreeze-at", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x, y = vibration(2048, generator)
    vx, vy = vibration(512, generator)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

    encoder = Encoder()
    pretrain(encoder, loader, epochs=3)
    model = Classifier(encoder)
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-3)

    for epoch in range(args.epochs):
        if epoch == args.unfreeze_at:
            for p in model.encoder.parameters():
                p.requires_grad_(True)
            for group in optimizer.param_groups:
                group["lr"] = 5e-4
            print("encoder unfrozen")
        model.train()
        total = 0.0
        for bx, by in loader:
            loss = F.cross_entropy(model(bx), by)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}  accuracy {accuracy(model, vx, vy):.3f}")


if __name__ == "__main__":
    main()
