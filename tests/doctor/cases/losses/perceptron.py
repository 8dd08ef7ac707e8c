import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def hinge(score, target):
    return torch.clamp(1 - target * score, min=0).mean()


torch.manual_seed(4)
side = torch.randint(0, 2, (320,)).float() * 2 - 1
x = torch.randn(320, 2) * 0.3 + side.unsqueeze(1) * 2
loader = DataLoader(TensorDataset(x, side), batch_size=32, shuffle=True)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(6):
    for xb, target in loader:
        loss = hinge(model(xb).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
