# kind: in a second phase
# expect: nothing
# like: teacher-shares-weights
# why: after the supervised burn-in the teacher begins as a deep copy with exactly the student's values, follows it as
#   an average, and is never optimized; the two have separate storage.
from copy import deepcopy
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)

CHANNELS, MINERALS = 64, 6


def spectra(count, gen):
    axis = torch.linspace(0, 1, CHANNELS)
    peaks = torch.rand(MINERALS, 3, generator=torch.Generator().manual_seed(0))
    label = torch.randint(MINERALS, (count,), generator=gen)
    where = peaks[label] + 0.02 * torch.randn(count, 3, generator=gen)
    height = 0.5 + torch.rand(count, 3, generator=gen)
    lines = (height[:, :, None] * torch.exp(-((axis - where[:, :, None]) / 0.03) ** 2)).sum(1)
    slope = torch.randn(count, 1, generator=gen) * axis
    raw = lines + slope + 0.15 * torch.randn(count, CHANNELS, generator=gen)
    return (raw - raw.mean(1, keepdim=True)) / raw.std(1, keepdim=True), label


def jitter(x):
    return x + 0.15 * torch.randn_like(x) + 0.2 * torch.randn(len(x), 1)


def endless(x, y, size):
    while True:
        for rows in torch.randperm(len(x)).split(size):
            if len(rows) == size:
                yield x[rows], y[rows]


def network():
    return nn.Sequential(nn.Linear(CHANNELS, 96), nn.LayerNorm(96), nn.GELU(), nn.Dropout(0.1),
                         nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU(), nn.Linear(96, MINERALS))


def accuracy(net, x, y):
    was = net.training
    net.eval()
    with torch.no_grad():
        value = (net(x).argmax(1) == y).float().mean().item()
    net.train(was)
    return value


gen = torch.Generator().manual_seed(100)
few_x, few_y = spectra(120, gen)
many_x, hidden_y = spectra(3000, gen)       # the labels of these are not used
valid_x, valid_y = spectra(600, gen)

student = network()
student.train()
opt = torch.optim.NAdam(student.parameters(), lr=1e-3)
labelled = endless(few_x, few_y, 30)

for x, y in islice(labelled, 100):
    opt.zero_grad()
    loss = F.cross_entropy(student(jitter(x)), y)
    loss.backward()
    opt.step()
print(f"burn-in: loss {loss.item():.3f}  valid {accuracy(student, valid_x, valid_y):.3f}")

teacher = deepcopy(student).requires_grad_(False).eval()
unlabelled = endless(many_x, hidden_y, 100)

for step in range(1, 301):
    x, y = next(labelled)
    u, _ = next(unlabelled)
    with torch.no_grad():
        goal = teacher(jitter(u)).softmax(dim=-1)
    supervised = F.cross_entropy(student(jitter(x)), y)
    agreement = F.mse_loss(student(jitter(u)).softmax(dim=-1), goal)
    weight = 10.0 * min(1.0, step / 100)
    loss = supervised + weight * agreement
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.97).add_(fast, alpha=0.03)
    if step % 50 == 0:
        print(f"step {step}  sup {supervised.item():.3f}  agree {agreement.item():.5f}  "
              f"student {accuracy(student, valid_x, valid_y):.3f}  teacher {accuracy(teacher, valid_x, valid_y):.3f}")
