import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(35)
y = torch.randint(0, 3, (121,))
x = torch.randn(121, 1, 6, 6) + y.view(-1, 1, 1, 1)
train = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
held = DataLoader(TensorDataset(torch.randn(20, 1, 6, 6), torch.randint(0, 3, (20,))), batch_size=1)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(3):
    model.train()
    for a, b in train:
        opt.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, sum((model(a).argmax(1) == b).sum().item() for a, b in held) / 20)
