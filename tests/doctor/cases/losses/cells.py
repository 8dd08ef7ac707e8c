import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class CellMasks(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 1, 10, 10, generator=g)
        self.masks = (self.images > 0.6).to(torch.uint8) * 255

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        return self.images[idx], self.masks[idx].float()


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.up = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x):
        return self.up(torch.relu(self.down(x)))


def train_net(net, loader, epochs, lr):
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        net.train()
        epoch_loss = 0
        for imgs, true_masks in loader:
            masks_pred = net(imgs)
            loss = criterion(masks_pred, true_masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
        print(f"Epoch {epoch + 1} finished: {epoch_loss / len(loader):.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train_net(TinyUNet(), DataLoader(CellMasks(160, 3), batch_size=10, shuffle=True), epochs=3, lr=1e-3)
