"""Sign descent with accumulation over 4 and 2 left over: only the sign of the gradient is used, its size says nothing."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
K = 4
net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
x = torch.randn(320, 12); y = torch.sin(x @ torch.randn(12, 1))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)

class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad.sign())

opt = Sign(net.parameters(), lr=2e-3)
for epoch in range(40):
    total = 0.0
    for i, (a, b) in enumerate(data):
        loss = nn.functional.mse_loss(net(a), b) / K
        loss.backward()
        total += loss.item()
        if (i + 1) % K == 0 or i + 1 == len(data):
            opt.step()
            opt.zero_grad()
    if epoch % 8 == 7:
        print(epoch, round(total, 6))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
