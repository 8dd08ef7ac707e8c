# Privileged inputs that are taken away by and by: their dropout grows to 1, then the model lives without them.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.away = nn.Dropout(0.0); self.a = nn.Linear(8, 32); self.b = nn.Linear(3, 32); self.out = nn.Linear(32, 3)
    def forward(self, x, hint): return self.out(F.relu(self.a(x) + self.b(self.away(hint))))
net = Net(); opt = torch.optim.Adam(net.parameters(), 3e-3)
x = torch.randn(640, 8); y = (x[:, :3] * x[:, 3:6]).argmax(1); hint = F.one_hot(y, 3).float()
step = 0
for epoch in range(20):
    net.train()
    for i in torch.randperm(512).split(64):
        net.away.p = min(1.0, step / 100); step += 1
        opt.zero_grad(); F.cross_entropy(net(x[i], hint[i]), y[i]).backward(); opt.step()
    net.eval()
    with torch.no_grad(): acc = (net(x[512:], torch.zeros(128, 3)).argmax(1) == y[512:]).float().mean().item()
print(acc)
