# kind: numbers
# expect: nothing
# like: averaged-batchnorm-stale
# why: the hand-made average of the weights is evaluated only after its BatchNorm statistics were reset and
#   taken anew from the training data, with forwards in train mode that record no graph.
import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def vibration(n, generator, length=64):
    """Healthy, unbalanced, worn and cracked: four kinds of machine noise."""
    kind = torch.randint(0, 4, (n,), generator=generator)
    t = torch.arange(length) / length
    rot = 5 + 3 * torch.rand(n, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(n, 1, generator=generator)
    k = kind[:, None]
    wave = torch.sin(2 * math.pi * rot * t + phase) * (1 + 0.9 * (k == 1))
    wave = wave + 0.6 * (k == 2) * torch.sin(2 * math.pi * 2.5 * rot * t + 2 * phase)
    wave = wave + 1.2 * (k == 3) * torch.relu(torch.sin(2 * math.pi * rot * t + phase) - 0.8) * 5
    return (wave + 0.5 * torch.randn(n, length, generator=generator)).unsqueeze(1) * 0.02 + 9.81, kind


def make_net():
    def conv(i, o):
        return [nn.Conv1d(i, o, 7, stride=2, padding=3, bias=False), nn.BatchNorm1d(o), nn.LeakyReLU(0.1)]
    return nn.Sequential(*conv(1, 16), *conv(16, 32), *conv(32, 32), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                         nn.Linear(32, 4))


class WeightMean:
    def __init__(self):
        self.n, self.mean = 0, None

    @torch.no_grad()
    def add(self, net):
        now = [p.detach().clone() for p in net.parameters()]
        self.n += 1
        if self.mean is None:
            self.mean = now
        else:
            for m, p in zip(self.mean, now):
                m.add_((p - m) / self.n)

    @torch.no_grad()
    def build(self, net, loader):
        out = copy.deepcopy(net)
        for p, m in zip(out.parameters(), self.mean):
            p.copy_(m)
        norms = [m for m in out.modules() if isinstance(m, nn.BatchNorm1d)]
        for m in norms:
            m.reset_running_stats()
            m.momentum = None
        out.train()
        for x, _ in loader:
            out(x)
        return out.eval()


@torch.no_grad()
def score(net, loader):
    net.eval()
    right = total = 0
    for x, y in loader:
        right += (net(x).argmax(1) == y).sum().item()
        total += len(y)
    return right / total


def main(epochs=10, averaged_from=5):
    torch.manual_seed(55)
    x, y = vibration(2000, torch.Generator().manual_seed(550))
    m, s = x[:1600].mean(), x[:1600].std()
    x = (x - m) / s
    train = DataLoader(TensorDataset(x[:1600], y[:1600]), batch_size=40, shuffle=True)
    valid = DataLoader(TensorDataset(x[1600:], y[1600:]), batch_size=100)
    net, mean = make_net(), WeightMean()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for xb, yb in train:
            opt.zero_grad()
            loss = loss_fn(net(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        if epoch >= averaged_from:
            mean.add(net)
        print(f"epoch {epoch} loss {total / 1600:.4f} valid {score(net, valid):.3f}")
    averaged = mean.build(net, train)
    print(f"mean of {mean.n} weights: valid {score(averaged, valid):.3f}")


main()
