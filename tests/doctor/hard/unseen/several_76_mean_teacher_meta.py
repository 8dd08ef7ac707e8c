# kind: several losses
# expect: teacher-shares-weights
# why: the teacher is made on the meta device and filled with load_state_dict(student.state_dict(), assign=True), which puts the student's own storage into the teacher; the moving average is a no-op and the consistency target is the student itself.
"""Mean teacher for acoustic event tagging with few labels: supervised + consistency loss."""
import math
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(12)
BINS, CLASSES = 40, 6


class Tagger(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(BINS, width), nn.LayerNorm(width), nn.ReLU(),
                                  nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.out(self.body(x))


def make_teacher(student):
    with torch.device("meta"):
        teacher = Tagger()
    teacher.load_state_dict(student.state_dict(), assign=True)
    return teacher.requires_grad_(False).eval()


@torch.no_grad()
def follow(teacher, student, step, top=0.98):
    decay = min(top, 1 - 1 / (step + 2))
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.lerp_(s, 1 - decay)


def spectra(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    centre = 4 + 6.0 * y[:, None] + 1.2 * torch.randn(n, 1, generator=g)
    f = torch.arange(BINS).float()
    second = torch.where(y % 2 == 0, 8.0, 14.0)[:, None]
    x = torch.exp(-((f - centre) / 2) ** 2) + 0.6 * torch.exp(-((f - (centre + second) % BINS) / 2) ** 2)
    return x + 0.45 * torch.randn(n, BINS, generator=g), y


def perturb(x):
    gain = 1 + 0.2 * torch.randn(len(x), 1)
    return gain * x + 0.35 * torch.randn_like(x)


def ramp(step, length):
    phase = 1 - min(1.0, step / length)
    return math.exp(-5 * phase * phase)


@torch.no_grad()
def accuracy(model, x, y):
    mode = model.training
    model.eval()
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train(mode)
    return acc


def main():
    x_lab, y_lab = spectra(60, 1)
    x_unl, _ = spectra(3000, 2)
    x_test, y_test = spectra(1500, 3)
    student = Tagger()
    teacher = make_teacher(student)
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    gen = torch.Generator().manual_seed(5)
    for step in range(500):
        li = torch.randint(0, len(x_lab), (30,), generator=gen)
        ui = torch.randint(0, len(x_unl), (96,), generator=gen)
        supervised = F.cross_entropy(student(perturb(x_lab[li])), y_lab[li])
        with torch.no_grad():
            goal = teacher(perturb(x_unl[ui])).softmax(-1)
        consistency = F.mse_loss(student(perturb(x_unl[ui])).softmax(-1), goal)
        loss = supervised + 20.0 * ramp(step, 200) * consistency
        opt.zero_grad()
        loss.backward()
        opt.step()
        follow(teacher, student, step)
        if step % 100 == 99:
            print(f"step {step + 1} sup {supervised.item():.4f} cons {consistency.item():.5f} "
                  f"student {accuracy(student, x_test, y_test):.3f} teacher {accuracy(teacher, x_test, y_test):.3f}")


main()
