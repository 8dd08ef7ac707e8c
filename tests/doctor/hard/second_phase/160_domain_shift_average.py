# kind: in a second phase
# expect: averaged-batchnorm-stale
# why: SmoothedCopy averages parameters only; its BatchNorm buffers stay those of the day it was made (end of phase 1, old scanner), and the smoothed model is evaluated on the new scanner without update_bn or copying the buffers.
"""Defect detector trained on scanner A, then moved to scanner B with averaged weights for deployment."""
import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(3)
rng = np.random.default_rng(3)


def scan(n, gain, offset):
    y = rng.integers(0, 4, n)
    img = rng.normal(0, 0.6, (n, 1, 16, 16)).astype(np.float32)
    r = rng.integers(2, 12, n)
    for i in range(n):
        k = r[i]
        if y[i] == 1:
            img[i, 0, k:k + 2, :] += 1.4
        elif y[i] == 2:
            img[i, 0, :, k:k + 2] += 1.4
        elif y[i] == 3:
            img[i, 0, k:k + 4, k:k + 4] += 1.4
    return torch.from_numpy(img * gain + offset), torch.from_numpy(y)


def conv_unit(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def detector():
    return nn.Sequential(conv_unit(1, 12, 1), conv_unit(12, 24, 2), conv_unit(24, 32, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))


class SmoothedCopy:
    """Exponential moving average of a network, kept next to it for deployment."""

    def __init__(self, net, decay=0.97):
        self.net = copy.deepcopy(net).eval().requires_grad_(False)
        self.decay = decay
        self._live = dict(net.named_parameters())

    @torch.no_grad()
    def follow(self):
        for name, avg in self.net.named_parameters():
            avg.lerp_(self._live[name], 1.0 - self.decay)


def shuffled(x, y, size, gen):
    order = torch.randperm(len(x), generator=gen)
    for idx in order.split(size):
        yield x[idx], y[idx]


@torch.no_grad()
def score(net, x, y):
    was = net.training
    net.eval()
    acc = (net(x).argmax(1) == y).float().mean().item()
    net.train(was)
    return acc


def run(net, data, epochs, lr, after_step=lambda: None, tag=""):
    gen = torch.Generator().manual_seed(17)
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    net.train()
    for epoch in range(epochs):
        seen, total = 0, 0.0
        for x, y in shuffled(*data, 50, gen):
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            after_step()
            total += loss.item() * len(y)
            seen += len(y)
        print(f"{tag} epoch {epoch}: loss {total / seen:.4f}")


def main():
    a_train = scan(1500, 1.0, 0.0)
    b_train, b_test = scan(1000, 0.45, 0.8), scan(800, 0.45, 0.8)

    net = detector()
    run(net, a_train, epochs=7, lr=0.05, tag="scanner A")
    print(f"scanner B before adaptation: {score(net, *b_test):.3f}")

    smoothed = SmoothedCopy(net)
    run(net, b_train, epochs=6, lr=0.05, after_step=smoothed.follow, tag="scanner B")
    print(f"deployed (smoothed) accuracy on scanner B: {score(smoothed.net, *b_test):.3f}")


if __name__ == "__main__":
    main()
