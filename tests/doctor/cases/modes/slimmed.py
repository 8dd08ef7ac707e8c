# Network slimming: L1 on the scales of BatchNorm, the small ones cut, accuracy printed before and after, then fine-tuning.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24),
                    nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 4))
x = torch.randn(640, 1, 8, 8); y = (x[:, 0, :4].mean((1, 2)) > 0).long() * 2 + (x[:, 0, 4:].mean((1, 2)) > 0).long()
x = x + (y.float() - 1.5)[:, None, None, None] * 0.3
norms = [m for m in net if isinstance(m, nn.BatchNorm2d)]
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
masks = []
def epoch():
    net.train()
    for i in torch.randperm(512).split(64):
        opt.zero_grad(); F.cross_entropy(net(x[i]), y[i]).backward()
        for m in norms: m.weight.grad.add_(0.003 * m.weight.detach().sign())
        opt.step()
        for m, mask in zip(norms, masks):
            m.weight.data.mul_(mask); m.bias.data.mul_(mask)
def test():
    net.eval()
    with torch.no_grad():
        return sum((net(x[i]).argmax(1) == y[i]).sum().item() for i in torch.arange(512, 640).split(32)) / 128
for _ in range(12): epoch()
print("trained", test())
scales = torch.cat([m.weight.detach().abs() for m in norms]); threshold = scales.sort().values[int(0.6 * len(scales))]
for m in norms:
    masks.append((m.weight.detach().abs() > threshold).float())
    m.weight.data.mul_(masks[-1]); m.bias.data.mul_(masks[-1])
print("cut", test())
for _ in range(4): epoch()
print("tuned", test())
