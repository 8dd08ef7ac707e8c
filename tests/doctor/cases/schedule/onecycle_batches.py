import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


def get_data(n=300):
    x = torch.randn(n, 5)
    return DataLoader(TensorDataset(x, (x**2).sum(1, keepdim=True) / 5), batch_size=25, shuffle=True)


def get_model():
    return nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.Linear(32, 1))


def fit(epochs, model, opt, sched, loader):
    for epoch in range(epochs):
        for xb, yb in loader:
            loss = nn.functional.mse_loss(model(xb), yb)
            loss.backward()
            opt.step()
            sched.step()
            opt.zero_grad()
        print(epoch, loss.item(), sched.get_last_lr()[0])


torch.manual_seed(9)
loader = get_data()
model = get_model()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
sched = OneCycleLR(opt, max_lr=1e-2, total_steps=4 * len(loader))
fit(4, model, opt, sched, loader)
