# kind: in a second phase
# expect: nothing
# like: teacher-shares-weights
# why: teacher and student begin the second phase with equal weights, but the teacher is a deep copy that follows the student
#      as a moving average and never gets gradients; the consistency term is not zero.
"""Semi-supervised activity recognition: supervised start, then mean-teacher consistency on unlabelled windows."""
import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
CLASSES, CHANNELS, LENGTH = 5, 3, 32


def windows(count, generator):
    fixed = torch.Generator().manual_seed(1717)
    rate = 0.25 + 0.25 * torch.arange(CLASSES)
    axis = torch.randn(CLASSES, CHANNELS, 1, generator=fixed)
    label = torch.randint(0, CLASSES, (count,), generator=generator)
    phase = 6.28 * torch.rand(count, 1, 1, generator=generator)
    t = torch.arange(LENGTH)
    x = axis[label] * torch.sin(rate[label][:, None, None] * t + phase)
    return x + 1.3 * torch.randn(count, CHANNELS, LENGTH, generator=generator), label


def noisy(x):
    gain = 1 + 0.1 * torch.randn(len(x), 1, 1)
    return gain * x + 0.2 * torch.randn_like(x)


def make_net():
    return nn.Sequential(
        nn.Conv1d(CHANNELS, 24, 5, padding=2), nn.GroupNorm(4, 24), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(24, 32, 5, padding=2), nn.GroupNorm(4, 32), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(64, CLASSES),
    )


@torch.no_grad()
def follow(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.lerp_(s, 1 - decay)


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--supervised", type=int, default=200)
    parser.add_argument("--consistency", type=int, default=450)
    parser.add_argument("--decay", type=float, default=0.98)
    args = parser.parse_args()
    torch.manual_seed(95)
    generator = torch.Generator().manual_seed(95)
    x, y = windows(300, generator)
    unlabelled, _ = windows(4000, generator)
    vx, vy = windows(1000, generator)

    student, teacher = make_net(), None
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    sums = [0.0, 0.0]
    for step in range(1, args.supervised + args.consistency + 1):
        student.train()
        if step == args.supervised + 1:
            teacher = copy.deepcopy(student).requires_grad_(False)
        idx = torch.randint(0, len(x), (32,))
        loss = F.cross_entropy(student(noisy(x[idx])), y[idx])
        sums[0] += loss.item()
        if teacher is not None:
            u = unlabelled[torch.randint(0, len(unlabelled), (64,))]
            teacher.eval()
            with torch.no_grad():
                soft = teacher(noisy(u)).softmax(1)
            consistency = (student(noisy(u)).softmax(1) - soft).pow(2).sum(1).mean()
            loss = loss + min(1.0, (step - args.supervised) / 150) * consistency
            sums[1] += consistency.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if teacher is not None:
            follow(teacher, student, args.decay)
        if step % 50 == 0:
            line = f"step {step}: loss {sums[0] / 50:.4f}  consistency {sums[1] / 50:.4f}  " \
                   f"student {accuracy(student, vx, vy):.3f}"
            if teacher is not None:
                line += f"  teacher {accuracy(teacher, vx, vy):.3f}"
            print(line)
            sums = [0.0, 0.0]


if __name__ == "__main__":
    main()
