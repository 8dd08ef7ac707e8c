# kind: several losses and optimizers
# expect: missing-zero-grad
# why: only the decoder's optimizer is cleared; the encoder's gradients pile up over the whole training and every
#      encoder step uses all of the past.
"""Denoising autoencoder for hydrophone snippets; encoder and decoder have their own optimizers."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Snippets(Dataset):
    def __init__(self, n, seed, length=80):
        g = torch.Generator().manual_seed(seed)
        t = torch.linspace(0, 1, length)
        f = 2 + 8 * torch.rand(n, 1, generator=g)
        chirp = 6 * torch.rand(n, 1, generator=g)
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        self.clean = torch.sin(2 * math.pi * (f * t + chirp * t * t) + phase)
        self.noisy = self.clean + 0.5 * torch.randn(n, length, generator=g)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        return self.noisy[i], self.clean[i]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.GELU(),
                                 nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.GELU(), nn.Flatten(),
                                 nn.Linear(24 * 20, 32))

    def forward(self, x):
        return self.net(x.unsqueeze(1))


class Decoder(nn.Module):
    def __init__(self, length=80):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 160), nn.GELU(), nn.Linear(160, length))

    def forward(self, z):
        return self.net(z)


class Trainer:
    def __init__(self, epochs):
        self.encoder, self.decoder = Encoder(), Decoder()
        self.enc_opt = torch.optim.Adam(self.encoder.parameters(), lr=5e-4)
        self.dec_opt = torch.optim.Adam(self.decoder.parameters(), lr=1e-3)
        self.criterion = nn.MSELoss()
        self.epochs = epochs

    def training_step(self, noisy, clean):
        loss = self.criterion(self.decoder(self.encoder(noisy)), clean)
        self.dec_opt.zero_grad()
        loss.backward()
        self.enc_opt.step()
        self.dec_opt.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, loader):
        self.encoder.eval()
        self.decoder.eval()
        total = n = 0
        for noisy, clean in loader:
            total += self.criterion(self.decoder(self.encoder(noisy)), clean).item() * len(clean)
            n += len(clean)
        return total / n

    def fit(self, train, valid):
        for epoch in range(self.epochs):
            self.encoder.train()
            self.decoder.train()
            losses = [self.training_step(*batch) for batch in train]
            print(f"epoch {epoch:2d}  train {sum(losses) / len(losses):.4f}  valid {self.evaluate(valid):.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(70)
    train = DataLoader(Snippets(2048, 1), batch_size=64, shuffle=True, drop_last=True)
    valid = DataLoader(Snippets(512, 2), batch_size=128)
    Trainer(args.epochs).fit(train, valid)


if __name__ == "__main__":
    main()
