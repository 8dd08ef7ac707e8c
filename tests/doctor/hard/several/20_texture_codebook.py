# kind: several losses and optimizers
# expect: nothing
# like: detached-loss
# why: the stop-gradients of a VQ-VAE: the codebook loss sees detached encodings, the commitment loss detached codes,
#      the straight-through copy joins them; encoder, decoder and codebook all get gradients and learn.
"""Vector-quantised autoencoder for texture patches; the codebook has its own optimizer."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def patches(n, seed, side=12):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, side)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    angle = math.pi * torch.randint(0, 6, (n, 1, 1), generator=g) / 6
    freq = torch.tensor([3.0, 6.0])[torch.randint(0, 2, (n, 1, 1), generator=g)]
    wave = torch.sin(freq * (xx * angle.cos() + yy * angle.sin()))
    return TensorDataset((wave + 0.1 * torch.randn(n, side, side, generator=g)).unsqueeze(1))


class Codebook(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.table = nn.Embedding(codes, dim)
        nn.init.normal_(self.table.weight, std=0.3)

    def forward(self, z):
        with torch.no_grad():
            index = torch.cdist(z.detach(), self.table.weight).argmin(-1)
        code = self.table(index)
        codebook_loss = F.mse_loss(code, z.detach())
        commitment = F.mse_loss(z, code.detach())
        return z + (code - z).detach(), codebook_loss, commitment, index


class VQ(nn.Module):
    def __init__(self, codes=32, dim=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
                                     nn.Conv2d(16, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, dim, 1))
        self.codebook = Codebook(codes, dim)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(dim, 16, 4, stride=2, padding=1), nn.ReLU(),
                                     nn.ConvTranspose2d(16, 16, 4, stride=2, padding=1), nn.ReLU(),
                                     nn.Conv2d(16, 1, 3, padding=1))

    def forward(self, x):
        z = self.encoder(x).permute(0, 2, 3, 1)
        q, codebook_loss, commitment, index = self.codebook(z)
        return self.decoder(q.permute(0, 3, 1, 2)), codebook_loss, commitment, index


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--beta", type=float, default=0.25)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(27)
    train = DataLoader(patches(2048, 5), batch_size=64, shuffle=True)
    valid = DataLoader(patches(512, 6), batch_size=128)
    model = VQ()
    net_opt = torch.optim.Adam([*model.encoder.parameters(), *model.decoder.parameters()], lr=1e-3)
    code_opt = torch.optim.Adam(model.codebook.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        sums = torch.zeros(2)
        for (x,) in train:
            out, codebook_loss, commitment, _ = model(x)
            recon = F.mse_loss(out, x)
            net_opt.zero_grad()
            code_opt.zero_grad()
            (recon + codebook_loss + args.beta * commitment).backward()
            net_opt.step()
            code_opt.step()
            sums += torch.stack([recon.detach(), codebook_loss.detach()])
        model.eval()
        used, err = set(), 0.0
        with torch.no_grad():
            for (x,) in valid:
                out, _, _, index = model(x)
                err += F.mse_loss(out, x).item() * len(x) / 512
                used.update(index.unique().tolist())
        recon, book = (sums / len(train)).tolist()
        print(f"epoch {epoch} recon {recon:.4f} codebook {book:.4f} valid {err:.4f} codes in use {len(used)}")


if __name__ == "__main__":
    main()
