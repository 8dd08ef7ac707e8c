# kind: behind indirection
# expect: missing-zero-grad
# why: `leaves` is a filter iterator that SGD's constructor already used up; the clearing closure made by functools.partial loops over nothing, so no gradient is ever cleared and every step uses the sum of all earlier gradients.
"""Stateless MLP: parameters live in a dictionary, the training step is assembled from small functions."""
import functools

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(21)

SIZES = (12, 48, 48, 5)


def init_params(sizes, frozen=("scale",)):
    params = {"scale": torch.full((sizes[0],), 0.8)}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        params[f"w{i}"] = torch.randn(a, b) * (2.0 / a) ** 0.5
        params[f"b{i}"] = torch.zeros(b)
    for name, p in params.items():
        p.requires_grad_(name not in frozen)
    return params


def apply(params, x):
    h = x * params["scale"]
    depth = len(SIZES) - 1
    for i in range(depth):
        h = h @ params[f"w{i}"] + params[f"b{i}"]
        if i < depth - 1:
            h = F.gelu(h)
    return h


def clear(tensors):
    for t in tensors:
        t.grad = None


def objective(params, x, y, l2):
    data = F.cross_entropy(apply(params, x), y)
    return data + l2 * sum((p ** 2).sum() for n, p in params.items() if n.startswith("w"))


def make_step(params, lr):
    leaves = filter(lambda p: p.requires_grad, params.values())
    optimizer = torch.optim.SGD(leaves, lr=lr)
    reset = functools.partial(clear, leaves)
    loss_fn = functools.partial(objective, params, l2=1e-5)

    def step(x, y):
        reset()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def make_data(n, w):
    x = torch.randn(n, SIZES[0])
    return x, (torch.sin(x) @ w + 0.3 * torch.randn(n, SIZES[-1])).argmax(1)


def main():
    w = torch.randn(SIZES[0], SIZES[-1])
    x, y = make_data(2000, w)
    xt, yt = make_data(600, w)
    params = init_params(SIZES)
    step = make_step(params, lr=0.02)
    for epoch in range(16):
        losses = [step(x[i], y[i]) for i in torch.randperm(len(x)).split(50)]
        if epoch % 4 == 3:
            with torch.no_grad():
                acc = (apply(params, xt).argmax(1) == yt).float().mean().item()
            print(f"epoch {epoch + 1:2d} loss {sum(losses) / len(losses):.3f} test accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
