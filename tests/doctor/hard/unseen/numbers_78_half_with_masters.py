# kind: numbers
# expect: nothing
# why: bf16 weights with an lr far below their resolution, a loss multiplied by a constant, parameters written in place each step and model parameters in no optimizer; right, because the fp32 masters are in the optimizer, gradients are unscaled before clipping and the weights are refreshed from the masters.
"""Small convolutional digit reader in bfloat16 with fp32 master weights kept by hand."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(90)
SCALE = 128.0


def log_normalise(z):
    z = z.float()
    z = z - z.amax(1, keepdim=True).detach()
    return z - z.exp().sum(1, keepdim=True).log()


class Reader(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.a = nn.Conv2d(1, c, 3, stride=2, padding=1)
        self.b = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.out = nn.Linear(2 * c * 9, 8)

    def forward(self, x):
        x = torch.relu(self.a(x))
        x = torch.relu(self.b(x))
        return self.out(x.flatten(1))


class Masters:
    """fp32 copies that the optimizer sees; the bf16 network only computes."""

    def __init__(self, net, **adam):
        self.half = list(net.parameters())
        self.full = [p.detach().float().clone().requires_grad_() for p in self.half]
        self.opt = torch.optim.AdamW(self.full, **adam)

    def step(self, max_norm):
        for f, h in zip(self.full, self.half):
            f.grad = h.grad.float().div_(SCALE)
            h.grad = None
        norm = nn.utils.clip_grad_norm_(self.full, max_norm)
        self.opt.step()
        with torch.no_grad():
            for f, h in zip(self.full, self.half):
                h.copy_(f)
        return norm.item()


def glyphs(n, seed):
    g = torch.Generator().manual_seed(seed)
    shapes = (torch.rand(8, 1, 12, 12, generator=torch.Generator().manual_seed(3)) < 0.35).float()
    y = torch.randint(0, 8, (n,), generator=g)
    x = shapes[y]
    shift = torch.randint(-1, 2, (n,), generator=g)
    x = torch.stack([img.roll(int(s), -1) for img, s in zip(x, shift)])
    return (x + 0.8 * torch.randn(x.shape, generator=g)).bfloat16(), y


def loss_of(net, x, y):
    logp = log_normalise(net(x))
    return -logp.gather(1, y[:, None]).mean()


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    acc = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return acc


def main():
    x, y = glyphs(2000, 1)
    xv, yv = glyphs(500, 2)
    net = Reader().bfloat16()
    masters = Masters(net, lr=4e-4, weight_decay=0.01)
    gen = torch.Generator().manual_seed(2)
    step = 0
    for epoch in range(5):
        for idx in torch.randperm(len(x), generator=gen).split(50):
            loss = loss_of(net, x[idx], y[idx])
            (loss * SCALE).backward()
            norm = masters.step(1.0)
            step += 1
        print(f"epoch {epoch} step {step} loss {loss.item():.4f} norm {norm:.3f} accuracy {accuracy(net, xv, yv):.3f}")


main()
