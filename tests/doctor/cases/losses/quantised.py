import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 6)
        self.dec = nn.Linear(6, 12)

    def forward(self, x):
        code = Straight.apply(self.enc(x))
        z = torch.sigmoid(code)
        hard = z + (z.round() - z).detach()
        return self.dec(hard)


torch.manual_seed(9)
x = torch.randn(480, 4) @ torch.randn(4, 12)
loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
model = Codec()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for (xb,) in loader:
        loss = nn.functional.mse_loss(model(xb), xb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
