"""Classes and a reconstruction, nine to one, in micro-batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
        self.classes, self.back = nn.Linear(24, 3), nn.Linear(24, 12)

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.back(h)


def objective(model, x, y, share=0.9):
    scores, back = model(x)
    return share * nn.functional.cross_entropy(scores, y) + (1 - share) * nn.functional.mse_loss(back, x)


torch.manual_seed(1)
x = torch.randn(600, 12)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
micro = 3
for epoch in range(4):
    for i, (bx, by) in enumerate(loader, 1):
        objective(model, bx, by).backward()
        if i % micro == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch)
