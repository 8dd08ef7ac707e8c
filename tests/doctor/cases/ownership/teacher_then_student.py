import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
x = torch.randn(420, 8)
y = (x[:, :3].sum(1) > 0).long() + (x[:, 3] > 1).long()
y[::4] = torch.randint(3, y[::4].shape)  # labels that nobody can learn
train = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=20, shuffle=True)
valid = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=25)

teacher = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
student = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

for net in (teacher, student):
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(4):
        net.train()
        for a, b in train:
            scores = net(a)
            loss = F.cross_entropy(scores, b)
            if net is student:
                with torch.no_grad():
                    soft = F.softmax(teacher(a) / 2, dim=1)
                loss = loss + F.kl_div(F.log_softmax(scores / 2, dim=1), soft, reduction="batchmean") * 4
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(a).argmax(1) == b).sum().item() for a, b in valid)
        print(epoch, right)
