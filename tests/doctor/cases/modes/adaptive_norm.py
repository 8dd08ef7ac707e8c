# AdaIN as in NVIDIA's MUNIT/FUNIT: F.batch_norm over a view (1, B*C, H, W), with running_mean/var repeated B times.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class AdaIN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = self.bias = None
        self.n = n
        self.register_buffer("running_mean", torch.zeros(n)); self.register_buffer("running_var", torch.ones(n))
    def forward(self, x):
        b, c = x.shape[:2]
        out = F.batch_norm(x.reshape(1, b * c, *x.shape[2:]), self.running_mean.repeat(b), self.running_var.repeat(b),
                           self.weight, self.bias, True, 0.1, 1e-5)
        return out.view(b, c, *x.shape[2:])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1); self.ada = AdaIN(8); self.style = nn.Linear(4, 16); self.out = nn.Conv2d(8, 1, 3, padding=1)
    def forward(self, x, s):
        h = self.conv(x); p = self.style(s)
        self.ada.weight, self.ada.bias = 1 + p[:, :8].reshape(-1), p[:, 8:].reshape(-1)
        return self.out(F.relu(self.ada(h)))
net = Net(); opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(80):
    x, s = torch.randn(8, 1, 12, 12), torch.randn(8, 4)
    y = x * s.mean(1)[:, None, None, None] + s[:, :1, None, None]
    loss = F.mse_loss(net(x, s), y)
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item())
