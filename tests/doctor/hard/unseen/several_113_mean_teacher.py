# kind: several
# expect: nothing
# why: might be accused of teacher-shares-weights, evaluated-in-train-mode and graph-retained; the teacher is a second model moved by copy_, runs with its dropout on because its noise is part of the Mean Teacher method, is evaluated in eval mode, and the graph is retained only to measure a gradient.
"""Mean Teacher: few labels, many unlabelled samples, a consistency term that ramps up."""
import argparse
import math
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build(n_in, classes):
    return nn.Sequential(nn.Linear(n_in, 128), nn.LayerNorm(128), nn.GELU(), nn.Dropout(0.25),
                         nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU(), nn.Dropout(0.25),
                         nn.Linear(128, classes))


def rings(n, classes, lift, gen):
    """Arcs around different centres, lifted to more dimensions."""
    y = torch.randint(0, classes, (n,), generator=gen)
    along = math.pi * torch.rand(n, generator=gen)
    turn = 2 * math.pi * y / classes
    xy = torch.stack([2.2 * turn.cos() + (along + turn).cos(), 2.2 * turn.sin() + (along + turn).sin()], dim=1)
    x = xy @ lift + 0.6 * torch.randn(n, lift.shape[1], generator=gen)
    return x, y


def ramp(step, length):
    t = min(step / length, 1.0)
    return 0.0 if step == 0 else math.exp(-5 * (1 - t) ** 2)


@torch.no_grad()
def follow(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.copy_(decay * t + (1 - decay) * s)


def forever(loader):
    while True:
        yield from loader


def gradient_norm(loss, params):
    grads = torch.autograd.grad(loss, params, retain_graph=True)
    return math.sqrt(sum(g.square().sum().item() for g in grads))


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    hits = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return hits


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=900)
    p.add_argument("--labelled", type=int, default=120)
    p.add_argument("--consistency", type=float, default=8.0)
    p.add_argument("--seed", type=int, default=90)
    return p.parse_args()


def main():
    args = parse()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    lift = torch.randn(2, 12, generator=gen) / 2
    classes = 6
    (x, y), valid, test = (rings(n, classes, lift, gen) for n in (4000, 500, 1500))
    mean, std = x.mean(0), x.std(0)
    x = (x - mean) / std
    valid, test = (((a - mean) / std, b) for a, b in (valid, test))
    labelled = DataLoader(TensorDataset(x[:args.labelled], y[:args.labelled]), batch_size=40, shuffle=True)
    unlabelled = DataLoader(TensorDataset(x[args.labelled:]), batch_size=96, shuffle=True, drop_last=True)

    student, teacher = build(12, classes), build(12, classes)
    teacher.load_state_dict(student.state_dict())
    teacher.requires_grad_(False)
    params = list(student.parameters())
    optimizer = torch.optim.AdamW(params, lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps, eta_min=1e-5)
    student.train()
    teacher.train()
    for step, ((xl, yl), (xu,)) in enumerate(islice(zip(forever(labelled), forever(unlabelled)), args.steps)):
        inputs = torch.cat([xl, xu])
        student_out = student(inputs + 0.15 * torch.randn_like(inputs))
        with torch.no_grad():
            teacher_out = teacher(inputs + 0.15 * torch.randn_like(inputs))
        supervised = F.cross_entropy(student_out[:len(xl)], yl)
        agreement = F.mse_loss(student_out.softmax(1), teacher_out.softmax(1))
        weight = args.consistency * ramp(step, args.steps // 3)
        if step % 150 == 0:
            norms = gradient_norm(supervised, params), gradient_norm(agreement, params)
            print(f"step {step} weight {weight:.2f} gradient norms %.3f %.4f" % norms)
        optimizer.zero_grad()
        (supervised + weight * agreement).backward()
        optimizer.step()
        schedule.step()
        follow(teacher, student, decay=min(0.99, 1 - 1 / (step + 2)))
        if (step + 1) % 150 == 0:
            print(f"step {step + 1} valid student {evaluate(student, *valid):.3f} teacher {evaluate(teacher, *valid):.3f}")
    print(f"test of the teacher {evaluate(teacher, *test):.3f}")


if __name__ == "__main__":
    main()
