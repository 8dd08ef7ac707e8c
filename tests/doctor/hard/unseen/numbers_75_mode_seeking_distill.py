# kind: numbers
# expect: kl-on-probabilities
# why: reverse_kl() wants KL(student || teacher) and passes the teacher as first argument, but as hand-normalised probabilities instead of log-probabilities; the student is drawn towards softmax(teacher probabilities), nearly uniform, and its likelihood is poor though the argmax agrees.
"""Compress a move predictor: a small student imitates a trained teacher with the mode-seeking KL."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(70)
CELLS, MOVES = 36, 9


def boards(n, seed):
    g = torch.Generator().manual_seed(seed)
    rules = torch.randn(CELLS, MOVES, generator=torch.Generator().manual_seed(77)) * 0.9
    x = torch.randint(-1, 2, (n, CELLS), generator=g).float()
    score = x @ rules + 0.8 * (x[:, :MOVES] * x[:, MOVES:2 * MOVES])
    return x, torch.distributions.Gumbel(0.0, 1.0).sample((n, MOVES)).add(score).argmax(1)


def stable_normalise(z):
    """Softmax with the maximum taken out first; float32 sums whatever comes in."""
    z = z.float()
    z = z - z.amax(-1, keepdim=True)
    e = z.exp()
    return e / e.sum(-1, keepdim=True)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fit(model, x, objective, steps, lr, gen, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=steps)
    for step in range(1, steps + 1):
        idx = torch.randint(0, len(x), (128,), generator=gen)
        loss = objective(model(x[idx]), idx)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 100 == 0:
            print(f"{tag} step {step} loss {loss.item():.4f}")
    return model


def reverse_kl(teacher_prob, student_logits):
    q = stable_normalise(student_logits)
    return F.kl_div(teacher_prob, q, reduction="batchmean")


@torch.no_grad()
def report(name, model, x, y):
    model.eval()
    out = model(x)
    nll = F.cross_entropy(out, y).item()
    print(f"{name}: move accuracy {(out.argmax(1) == y).float().mean().item():.3f} nll {nll:.3f}")


def main():
    gen = torch.Generator().manual_seed(1)
    x, y = boards(6000, 1)
    x_test, y_test = boards(1500, 2)
    teacher = fit(mlp(CELLS, 128, MOVES), x, lambda out, i: F.cross_entropy(out, y[i]), 300, 3e-3, gen, "teacher")
    report("teacher", teacher, x_test, y_test)

    teacher.requires_grad_(False).eval()
    with torch.no_grad():
        soft = stable_normalise(teacher(x))
    student = fit(mlp(CELLS, 32, MOVES), x, lambda out, i: reverse_kl(soft[i], out), 300, 5e-3, gen, "student")
    report("student", student, x_test, y_test)


main()
