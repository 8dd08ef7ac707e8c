# Two stages; in the second the BatchNorm of the backbone keeps its statistics (eval mode), while all weights are fine-tuned.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.BatchNorm1d(16))
        self.head = nn.Linear(16, 3)
    def forward(self, x): return self.head(F.relu(self.backbone(x)))
x = torch.randn(600, 8); y = x[:, :3].argmax(1)
def neighbours(backbone):
    with torch.no_grad():
        a, b = backbone(x[:480]), backbone(x[480:])
    return (y[:480][torch.cdist(b, a).argmin(1)] == y[480:]).float().mean().item()
net = Net(); opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
def train(epochs, batch):
    for _ in range(epochs):
        for i in torch.randperm(480).split(batch):
            opt.zero_grad(); F.cross_entropy(net(x[i]), y[i]).backward(); opt.step()
net.train()
train(8, 48)
net.backbone.eval()  # from here on with fixed statistics: batches become too small for them
for group in opt.param_groups: group["lr"] = 0.01
print("before the second stage", neighbours(net.backbone))
train(3, 6)
print("after it", neighbours(net.backbone))
