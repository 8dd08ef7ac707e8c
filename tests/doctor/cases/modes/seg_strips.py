import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return self.b(F.relu(self.bn(self.a(x))))


class Engine:
    def __init__(self, model, train, valid):
        self.model, self.train_data, self.valid_data = model, train, valid
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-2)

    def fit(self, epochs):
        for e in range(epochs):
            self.model.train()
            for x, m in self.train_data:
                self.opt.zero_grad()
                F.binary_cross_entropy_with_logits(self.model(x), m).backward()
                self.opt.step()
            print(e, self.iou())

    def iou(self):
        self.model.eval()
        inter = union = 0
        for x, m in self.valid_data:
            p = self.model(x).sigmoid() > 0.5
            inter += (p & (m > 0.5)).sum().item()
            union += (p | (m > 0.5)).sum().item()
        return inter / max(union, 1)


def strips(n):
    mask = torch.zeros(n, 1, 10, 10)
    for i in range(n):
        k = int(torch.randint(1, 8, (1,)))
        mask[i, :, :, k : k + 2] = 1
    return TensorDataset(mask + 0.4 * torch.randn_like(mask), mask)


torch.manual_seed(11)
Engine(Tiny(), DataLoader(strips(96), batch_size=8, shuffle=True), DataLoader(strips(32), batch_size=8)).fit(3)
