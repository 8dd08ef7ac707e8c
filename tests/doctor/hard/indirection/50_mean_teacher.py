# kind: behind indirection
# expect: nothing
# like: teacher-shares-weights
# why: The teacher runs through the student's own module with functional_call, but on a dictionary of cloned tensors that
#      follows the student by a moving average in the optimizer's post-step hook.
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Shadow:
    def __init__(self, module, decay):
        self.module, self.decay = module, decay
        self.tensors = {k: v.detach().clone() for k, v in module.named_parameters()}

    def __call__(self, x):
        with torch.no_grad():
            return functional_call(self.module, self.tensors, (x,))

    def trail(self, *_):
        with torch.no_grad():
            for k, v in self.module.named_parameters():
                self.tensors[k].mul_(self.decay).add_(v, alpha=1 - self.decay)

    @classmethod
    def behind(cls, module, opt, decay=0.97):
        shadow = cls(module, decay)
        opt.register_step_post_hook(shadow.trail)
        return shadow


def gestures(n, g):
    """Accelerometer snippets, six gestures, three axes."""
    y = torch.randint(0, 6, (n,), generator=g)
    t = torch.linspace(0, 1, 32)
    f = torch.tensor([2.0, 3.0, 4.0, 2.0, 3.0, 4.0])[y][:, None, None]
    lag = torch.tensor([0.0, 0.0, 0.0, 1.6, 1.6, 1.6])[y][:, None, None]
    axis = torch.arange(3).float()[None, :, None]
    ph = 6.283 * torch.rand(n, 1, 1, generator=g)
    x = torch.sin(6.283 * f * t + ph + lag * axis) + 0.6 * torch.randn(n, 3, 32, generator=g)
    return x, y


def student():
    return nn.Sequential(
        nn.Conv1d(3, 24, 7, padding=3), nn.GroupNorm(4, 24), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(24, 32, 5, padding=2), nn.GroupNorm(4, 32), nn.ReLU(),
        nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, 6),
    )


def jitter(x):
    gain = 1 + 0.15 * torch.randn(len(x), 1, 1)
    return gain * x + 0.15 * torch.randn_like(x)


def ramp(step, length):
    return float(torch.exp(torch.tensor(-5.0 * (1 - min(1.0, step / length)) ** 2)))


@torch.no_grad()
def accuracy(call, loader):
    return sum((call(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    torch.manual_seed(61)
    g = torch.Generator().manual_seed(62)
    x, y = gestures(1800, g)
    x = (x - x[:1400].mean()) / x[:1400].std()
    labelled = DataLoader(TensorDataset(x[:240], y[:240]), 24, shuffle=True)
    unlabelled = DataLoader(TensorDataset(x[240:1400]), 58, shuffle=True)
    valid = DataLoader(TensorDataset(x[1400:], y[1400:]), 100)
    net = student()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    teacher = Shadow.behind(net, opt)
    ticks = itertools.count()
    for epoch in range(8):
        net.train()
        sup = con = n = 0
        for (u,) in unlabelled:
            if n % len(labelled) == 0:
                some = iter(labelled)
            xl, yl = next(some)
            ce = F.cross_entropy(net(jitter(xl)), yl)
            goal = teacher(jitter(u)).softmax(1)
            agree = F.mse_loss(net(jitter(u)).softmax(1), goal)
            opt.zero_grad()
            (ce + 6.0 * ramp(next(ticks), 80) * agree).backward()
            opt.step()
            sup, con, n = sup + ce.item(), con + agree.item(), n + 1
        net.eval()
        print(
            f"epoch {epoch} ce {sup / n:.4f} agree {con / n:.5f} "
            f"student {accuracy(net, valid):.3f} teacher {accuracy(teacher, valid):.3f}"
        )


main()
