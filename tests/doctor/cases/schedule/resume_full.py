import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def objects():
    torch.manual_seed(29)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    return model, optimizer, scheduler


def run(model, optimizer, scheduler, loader, epochs):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
    print(loss.item(), scheduler.get_last_lr())


x = torch.randn(120, 4, generator=torch.Generator().manual_seed(1))
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=12, shuffle=True)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pth.tar")
    model, optimizer, scheduler = objects()
    run(model, optimizer, scheduler, loader, 3)
    state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    torch.save(state, path)
    model, optimizer, scheduler = objects()
    state = torch.load(path)
    model.load_state_dict(state["state_dict"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    run(model, optimizer, scheduler, loader, 2)
