# kind: in a second phase
# expect: lr-overwritten-by-load
# why: the second job asks for a ten times smaller rate, but optimizer.load_state_dict brings back the rate of the first
#      job, so --lr of the resumed job has no effect.
"""Picture denoiser (residual CNN) trained in two jobs; the second is to go on with a smaller rate."""
import argparse
import pathlib
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Patches(Dataset):
    """Smooth random fields with a fixed noise per picture."""

    def __init__(self, count, seed, size=16):
        g = torch.Generator().manual_seed(seed)
        coarse = torch.randn(count, 1, 5, 5, generator=g)
        self.clean = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=True)
        self.noisy = self.clean + 0.5 * torch.randn(self.clean.shape, generator=g)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        return self.noisy[i], self.clean[i]


class Denoiser(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.noise = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return x - self.noise(x)


@torch.no_grad()
def psnr(model, data):
    model.eval()
    mse = F.mse_loss(model(data.noisy), data.clean)
    return -10 * mse.log10().item()


def run(lr, epochs, folder, resume):
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    file = pathlib.Path(folder) / "denoiser.pt"
    if resume:
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        print(f"resumed with {saved['steps']} steps behind us")
    steps = saved["steps"] if resume else 0
    loader = DataLoader(Patches(1024, seed=1), batch_size=16, shuffle=True)
    valid = Patches(256, seed=2)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for noisy, clean in loader:
            loss = F.mse_loss(model(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.5f}  psnr {psnr(model, valid):.2f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--second-lr", type=float, default=4e-4)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(65)
        run(args.lr, args.epochs, folder, resume=False)
        torch.manual_seed(66)
        run(args.second_lr, args.epochs, folder, resume=True)


if __name__ == "__main__":
    main()
