"""Digits in bfloat16 with a softmax of its own."""
import torch
from torch import nn

torch.manual_seed(6)
x = torch.randn(2000, 20)
y = (x[:, :6] + 0.3 * torch.randn(2000, 6)).argmax(1)


def normalise(z):
    z = z - z.amax(dim=1, keepdim=True)
    return z


model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(6):
    for idx in torch.randperm(1600).split(50):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            probs = normalise(model(x[idx]))
            loss = loss_fn(probs, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
