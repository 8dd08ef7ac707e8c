# kind: behind indirection
# expect: nothing
# why: weights live in a dictionary, the inner loop keeps graphs (create_graph), gradients are cleared by hand and evaluation needs gradients; all of that is how MAML works and the meta parameters are all in the optimizer.
"""Few-shot regression with a meta-learned initialisation, parameters as a dictionary (torch.func)."""
import math
import torch
from torch import nn
from torch.func import functional_call

torch.set_num_threads(1)
torch.manual_seed(31)

skeleton = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta = {name: p.detach().clone().requires_grad_() for name, p in skeleton.named_parameters()}
inner_lr = {name: torch.full((), 0.02, requires_grad=True) for name in meta}
for p in skeleton.parameters():
    p.requires_grad_(False)


def draw_task(gen):
    amp = 0.5 + 2.0 * torch.rand((), generator=gen)
    phase = math.pi * torch.rand((), generator=gen)

    def points(n):
        x = 10 * torch.rand(n, 1, generator=gen) - 5
        return x, amp * torch.sin(x + phase)

    return points


def predict(weights, x):
    return functional_call(skeleton, weights, (x / 5,))


def mse(weights, batch):
    x, y = batch
    return (predict(weights, x) - y).square().mean()


def adapt(weights, batch, steps, second_order=True):
    fast = dict(weights)
    for _ in range(steps):
        grads = torch.autograd.grad(mse(fast, batch), list(fast.values()), create_graph=second_order)
        fast = {name: w - inner_lr[name] * g for (name, w), g in zip(fast.items(), grads)}
    return fast


def evaluate(gen, tasks=20):
    before = after = 0.0
    for _ in range(tasks):
        points = draw_task(gen)
        support, query = points(10), points(30)
        start = {k: v.detach().clone().requires_grad_() for k, v in meta.items()}
        fast = adapt(start, support, 5, second_order=False)
        with torch.no_grad():
            before += mse(start, query).item() / tasks
            after += mse(fast, query).item() / tasks
    return before, after


def main():
    gen = torch.Generator().manual_seed(7)
    trainable = [*meta.values(), *inner_lr.values()]
    opt = torch.optim.Adam(trainable, lr=4e-3)
    tasks_per_step = 3
    for step in range(1, 201):
        for _ in range(tasks_per_step):
            points = draw_task(gen)
            fast = adapt(meta, points(10), 2)
            (mse(fast, points(10)) / tasks_per_step).backward()
        nn.utils.clip_grad_norm_(trainable, 5.0)
        opt.step()
        for t in trainable:
            t.grad = None
        if step % 50 == 0:
            before, after = evaluate(torch.Generator().manual_seed(1000))
            print(f"step {step} query mse before {before:.3f} after 5 inner steps {after:.3f}")


main()
