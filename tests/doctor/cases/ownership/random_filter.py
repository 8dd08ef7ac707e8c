# Random-convolution augmentation (Lee et al. 2020, Xu et al. 2021): a new random filter for every batch, in train mode only.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 4))
    def forward(self, x):
        if self.training:
            random = nn.Conv2d(1, 1, 3, padding=1, bias=False)
            nn.init.xavier_normal_(random.weight)
            x = x + 0.3 * random(x)
        return self.body(x)
net = Net(); opt = torch.optim.Adam(net.parameters(), 1e-3)
x = torch.randn(256, 1, 8, 8); y = (x[:, 0, :4].mean((1, 2)) > 0).long() * 2 + (x[:, 0, 4:].mean((1, 2)) > 0).long()
for epoch in range(15):
    net.train()
    for i in torch.randperm(256).split(32):
        opt.zero_grad(); F.cross_entropy(net(x[i]), y[i]).backward(); opt.step()
