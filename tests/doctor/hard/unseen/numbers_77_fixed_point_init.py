# kind: numbers
# expect: symmetric-weights
# why: the initial weights (standard deviation 0.03, truncated at two of them) are rounded to the chip's grid of 1/8, which makes every single one zero; the hidden units start equal, receive equal gradients and stay equal, so 64 units have the capacity of one.
"""Motor-current model for a microcontroller: weights start on the Q4.3 grid of the target chip."""
from types import SimpleNamespace
import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(64)
CHIP = SimpleNamespace(int_bits=4, frac_bits=3)


def to_grid(t, chip=CHIP):
    scale = 2.0 ** chip.frac_bits
    limit = 2.0 ** chip.int_bits - 1 / scale
    return (t * scale).round().div(scale).clamp(-limit, limit)


def fresh(fan_in, fan_out):
    w = torch.empty(fan_in, fan_out)
    std = 0.03
    torch.nn.init.trunc_normal_(w, std=std, a=-2 * std, b=2 * std)
    return to_grid(w).requires_grad_(), torch.zeros(fan_out, requires_grad=True)


def make_net(sizes):
    return [fresh(a, b) for a, b in zip(sizes[:-1], sizes[1:])]


def forward(net, x):
    for w, b in net[:-1]:
        x = torch.nn.functional.softplus(x @ w + b)
    w, b = net[-1]
    return x @ w + b


def motor(n, seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (n, 20)).astype(np.float32)
    speed, load, temp = u[:, 0], u[:, 1], u[:, 2]
    current = np.stack([np.sin(3 * speed) * load, speed * temp + 0.5 * np.abs(load)], 1)
    current += 0.3 * u[:, 3:5]
    return torch.from_numpy(u), torch.from_numpy(current.astype(np.float32))


def minibatches(x, y, size, epochs, seed):
    g = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        for idx in torch.randperm(len(x), generator=g).split(size):
            yield epoch, x[idx], y[idx]


def main():
    x, y = motor(4000, 1)
    xv, yv = motor(1000, 2)
    mean, std = y.mean(0), y.std(0)
    net = make_net([20, 64, 2])
    leaves = [t for pair in net for t in pair]
    opt = torch.optim.Adam(leaves, lr=1e-2)
    shown = -1
    for step, (epoch, xb, yb) in enumerate(minibatches(x, y, 80, 12, 3)):
        loss = (forward(net, xb) - (yb - mean) / std).square().mean()
        for t in leaves:
            t.grad = None
        loss.backward()
        opt.step()
        if epoch != shown and epoch % 3 == 0:
            shown = epoch
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        pred = forward(net, xv) * std + mean
        chip_net = [(to_grid(w, SimpleNamespace(int_bits=4, frac_bits=8)), b) for w, b in net]
        chip_pred = forward(chip_net, xv) * std + mean
    base = (yv - mean).square().mean()
    for name, p in (("float", pred), ("Q4.8", chip_pred)):
        print(f"{name}: unexplained variance {((p - yv).square().mean() / base).item():.3f}")


main()
