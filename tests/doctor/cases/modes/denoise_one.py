import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))

    def forward(self, x):
        return x - self.net(x)


torch.manual_seed(32)
clean = torch.randn(50, 1, 1, 8).expand(50, 1, 8, 8).contiguous()
noisy = clean + 0.3 * torch.randn_like(clean)
train = DataLoader(TensorDataset(noisy[:40], clean[:40]), batch_size=1, shuffle=True)
test = DataLoader(TensorDataset(noisy[40:], clean[40:]), batch_size=1)
model = Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(2):
    model.train()
    for a, b in train:
        opt.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, sum(nn.functional.mse_loss(model(a), b).item() for a, b in test) / 10)
