"""River levels, a warm-up and a cosine behind a helper."""
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)


def make_scheduler(opt, updates, warm):
    up = LinearLR(opt, start_factor=0.02, total_iters=warm)
    down = CosineAnnealingLR(opt, T_max=updates - warm)
    return SequentialLR(opt, [up, down], milestones=[warm])


def main():
    x = torch.randn(1200, 12)
    y = (x[:, :3].sum(1) * x[:, 4].cos()).unsqueeze(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    net = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    epochs = 8
    schedule = make_scheduler(opt, epochs * len(loader), 60)
    for epoch in range(epochs):
        for bx, by in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(bx), by)
            loss.backward()
            opt.step()
        schedule.step()
        print(epoch, loss.item(), schedule.get_last_lr())


main()
