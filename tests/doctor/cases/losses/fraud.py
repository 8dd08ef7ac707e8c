import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
x = torch.randn(512, 10)
y = (x[:, 0] > 2.0).long()
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
risk = nn.Linear(10, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
optimizer = torch.optim.Adam([*model.parameters(), *risk.parameters()], lr=1e-3)
ce, bce = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
for epoch in range(2):
    for xb, yb in loader:
        loss = ce(model(xb), yb) + bce(risk(xb), yb.float().unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
