import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 10))
x = torch.randn(200, 10)
y = x[:, :3].argmax(1)


def run(net, opt, epochs):
    for _ in range(epochs):
        for part in torch.randperm(200).split(20):
            opt.zero_grad()
            loss = F.cross_entropy(net(x[part]), y[part])
            loss.backward()
            opt.step()
    return loss.item()


opt = torch.optim.SGD(net.parameters(), lr=0.05)
print(run(net, opt, 2))
net[2] = nn.Linear(24, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
print(run(net, opt, 3))
net.append(nn.Linear(3, 3))
opt.add_param_group({"params": net[3].parameters(), "lr": 0.01})
print(run(net, opt, 3))
