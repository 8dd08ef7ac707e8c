# kind: behind indirection
# expect: averaged-batchnorm-stale
# why: The moving average keeps named_parameters only; functional_call takes the BatchNorm statistics from the live
#      model, so the averaged weights are evaluated with running means and variances of other weights.
from functools import partial

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def fields(n, g):
    """Satellite-like tiles with one or two bright elliptical fields on textured ground."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
    mask = torch.zeros(n, 24, 24, dtype=torch.bool)
    for _ in range(2):
        c = torch.rand(n, 2, 1, 1, generator=g) * 1.2 - 0.6
        r = 0.2 + 0.3 * torch.rand(n, 2, 1, 1, generator=g)
        mask |= ((xx - c[:, 0]) / r[:, 0]) ** 2 + ((yy - c[:, 1]) / r[:, 1]) ** 2 < 1
    tex = torch.randn(n, 3, 24, 24, generator=g)
    tint = torch.tensor([0.9, -0.5, 0.6]).view(1, 3, 1, 1)
    img = tex + tint * mask[:, None].float()
    return img, mask.float()[:, None]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class Net(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.a, self.b, self.c = block(3, w), block(w, 2 * w), block(3 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = F.interpolate(self.b(F.max_pool2d(a, 2)), scale_factor=2, mode="nearest")
        return self.head(self.c(torch.cat([a, b], 1)))


class Smoothed:
    """Exponential moving average of a network that follows the optimizer by itself."""

    def __init__(self, net, opt, decay):
        self.net, self.decay = net, decay
        self.values = {k: v.detach().clone() for k, v in net.named_parameters()}
        opt.register_step_post_hook(self._follow)

    @torch.no_grad()
    def _follow(self, *_):
        for k, v in self.net.named_parameters():
            self.values[k].lerp_(v, 1 - self.decay)

    @property
    def forward(self):
        return partial(functional_call, self.net, self.values)


def dice_bce(logits, y):
    p = logits.sigmoid()
    inter = (p * y).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, y) + dice.mean()


@torch.no_grad()
def iou(call, loader):
    hit = union = 0
    for x, y in loader:
        pred = call((x,)) > 0
        hit += (pred & (y > 0)).sum().item()
        union += (pred | (y > 0)).sum().item()
    return hit / union


def main(epochs=7, batch=16):
    torch.manual_seed(8)
    g = torch.Generator().manual_seed(80)
    x, y = fields(640, g)
    mean, std = x[:512].mean((0, 2, 3), keepdim=True), x[:512].std((0, 2, 3), keepdim=True)
    x = (x - mean) / std
    train = DataLoader(TensorDataset(x[:512], y[:512]), batch, shuffle=True)
    valid = DataLoader(TensorDataset(x[512:], y[512:]), 64)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    smooth = Smoothed(net, opt, decay=0.98)
    for epoch in range(epochs):
        net.train()
        tot = 0.0
        for xb, yb in train:
            opt.zero_grad()
            loss = dice_bce(net(xb), yb)
            loss.backward()
            opt.step()
            tot += loss.item() * len(xb)
        net.eval()
        print(f"epoch {epoch} loss {tot / 512:.4f} averaged iou {iou(smooth.forward, valid):.4f}")


main()
