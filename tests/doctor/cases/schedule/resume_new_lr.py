import io

import torch
from torch import nn

torch.manual_seed(30)
x = torch.randn(150, 5)
y = torch.tanh(x[:, :1] * 2)


def steps(model, optimizer, n):
    for _ in range(n):
        rows = torch.randint(0, 150, (30,))
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
print(steps(model, optimizer, 30))
blob = io.BytesIO()
torch.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, blob)
blob.seek(0)

new_lr = 5e-4
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=new_lr)
state = torch.load(blob)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optim"])
for group in optimizer.param_groups:
    group["lr"] = new_lr
print(steps(model, optimizer, 30))
