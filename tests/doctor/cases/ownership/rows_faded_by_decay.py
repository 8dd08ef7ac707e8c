"""Filter pruning by fading (as ResRep's gradient resetting): the weakest units get no gradient of the loss any more, only the
decay, until they are nothing and can be cut off without a jump."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
F = nn.functional

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32, bias=False), nn.Linear(32, 4)
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

x = torch.randn(1024, 16); y = (x @ torch.randn(16, 4)).argmax(1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=True)
net = Net()
with torch.no_grad():  # a model from elsewhere: some of its units are weak
    net.first.weight.mul_(torch.rand(32, 1) + 0.3)
fading = net.first.weight.detach().norm(dim=1).argsort()[:10]
opt = torch.optim.SGD([
    {"params": [net.first.weight], "weight_decay": 0.3},  # what fades the units
    {"params": net.second.parameters(), "weight_decay": 0.0},
], lr=0.1)
for epoch in range(12):
    total = 0.0
    for a, b in data:
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        net.first.weight.grad[fading] = 0.0  # the loss must not keep them alive
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(data), 5), round(net.first.weight.detach()[fading].norm().item(), 6))
keep = torch.ones(32, dtype=torch.bool); keep[fading] = False
small = Net(); small.first, small.second = nn.Linear(16, 22, bias=False), nn.Linear(22, 4)
with torch.no_grad():
    small.first.weight.copy_(net.first.weight[keep]); small.second.weight.copy_(net.second.weight[:, keep]); small.second.bias.copy_(net.second.bias)
    print("cut", F.cross_entropy(net(x), y).item(), F.cross_entropy(small(x), y).item())
print("sum", sum(p.double().sum().item() for p in net.parameters()))
