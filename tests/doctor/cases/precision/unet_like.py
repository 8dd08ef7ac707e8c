"""Segmentation with an automatic scale, an encoder and a decoder."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.mask = (torch.rand(n, 1, 2, 2, generator=g) > 0.5).float().repeat_interleave(4, 2).repeat_interleave(4, 3)
        self.image = self.mask + 0.3 * torch.randn(n, 1, 8, 8, generator=g)

    def __len__(self):
        return len(self.mask)

    def __getitem__(self, i):
        return {"image": self.image[i], "mask": self.mask[i]}


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(5, 1, 1)

    def forward(self, x):
        h = F.relu(self.up(F.relu(self.down(x))))
        return self.out(torch.cat([h, x], dim=1))


def train_model(model, loader, epochs, lr, amp, gradient_clipping):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=lr, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=amp)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0.0
        for batch in loader:
            images, true_masks = batch["image"], batch["mask"]
            with torch.autocast("cpu", dtype=torch.float16, enabled=amp):
                masks_pred = model(images)
                loss = criterion(masks_pred.float(), true_masks)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            nn.utils.clip_grad_value_(model.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            epoch_loss += loss.item()
        print(f"epoch {epoch}: {epoch_loss / len(loader):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-amp", dest="amp", action="store_false")
    args = parser.parse_args()
    torch.manual_seed(0)
    train_model(UNet(), DataLoader(Shapes(64), batch_size=8, shuffle=True), 4, 1e-3, args.amp, 0.5)
