import torch
from torch import nn

torch.manual_seed(4)
time = torch.linspace(0, 1, 400).unsqueeze(1)
temperature = torch.sin(6.28 * time).squeeze() + 0.05 * torch.randn(400)

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(4):
    order = torch.randperm(400)
    for rows in order.split(40):
        predicted = model(time[rows])
        error = predicted - temperature[rows]
        loss = (error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
