import os
import tempfile

import torch
import torch.nn as nn
import torch.optim as optim


class Trainer:
    def __init__(self, folder, lr=0.05):
        torch.manual_seed(3)
        self.path = os.path.join(folder, "ckpt.pt")
        self.x = torch.randn(160, 6)
        self.y = self.x @ torch.randn(6, 1) + 0.1 * torch.randn(160, 1)
        self.model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = optim.lr_scheduler.MultiStepLR(self.optimizer, milestones=[3, 6], gamma=0.3)
        self.epoch = 0

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}, self.path)

    def resume(self):
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.epoch = state["epoch"]
        for _ in range(self.epoch):
            self.scheduler.step()
        self.optimizer.load_state_dict(state["optimizer"])

    def fit(self, until):
        loss_fn = nn.MSELoss()
        while self.epoch < until:
            order = torch.randperm(len(self.x))
            for i in range(0, len(self.x), 16):
                idx = order[i : i + 16]
                loss = loss_fn(self.model(self.x[idx]), self.y[idx])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.scheduler.step()
            self.epoch += 1
        return loss.item()


with tempfile.TemporaryDirectory() as folder:
    first = Trainer(folder)
    print(first.fit(4))
    first.save()
    second = Trainer(folder)
    second.resume()
    print(second.fit(8), second.scheduler.get_last_lr())
