"""Masks at half the resolution, upsampled before the loss."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(3)
img = torch.randn(240, 1, 16, 16)
img = F.avg_pool2d(F.pad(img, (2, 2, 2, 2)), 5, 1)
mask = (img > 0.1).float()


class Seg(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 12, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(12, 12, 3, padding=1)
        self.out = nn.Conv2d(12, 1, 1)
        self.act = nn.Sigmoid()

    def forward(self, x):
        small = self.act(self.out(F.relu(self.mid(F.relu(self.down(x))))))
        return F.interpolate(small, size=x.shape[-2:], mode="bilinear", align_corners=False)


model = Seg()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    for idx in torch.randperm(200).split(20):
        loss = F.binary_cross_entropy_with_logits(model(img[idx]), mask[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, ((model(img[200:]) > 0.5).float() == mask[200:]).float().mean().item())
