# kind: behind indirection
# expect: nothing
# like: nothing-trainable
# why: No tensor has requires_grad and there is no torch optimizer: parameters are a plain dictionary, gradients come
#      from torch.func.grad_and_value, and an own AdamW class returns a new dictionary each step. It trains properly.
import math

import torch
from torch.func import grad_and_value, vmap

torch.set_num_threads(1)
torch.manual_seed(3)

ATOMS, KINDS, WIDTH, ROUNDS = 9, 5, 24, 2


def make_molecules(n, g):
    kind = torch.randint(0, KINDS, (n, ATOMS), generator=g)
    bond = (torch.rand(n, ATOMS, ATOMS, generator=g) < 0.22).float()
    bond = torch.triu(bond, 1)
    bond = bond + bond.transpose(1, 2)
    charge = torch.tensor([-1.0, -0.3, 0.2, 0.6, 1.1])[kind]
    polar = (bond * (charge[:, :, None] - charge[:, None, :]).abs()).sum((1, 2))
    prop = polar + 1.5 * charge.sum(1) + 0.1 * torch.randn(n, generator=g)
    return kind, bond, prop


def dense(fan_in, fan_out):
    return {"w": torch.randn(fan_in, fan_out) / math.sqrt(fan_in), "b": torch.zeros(fan_out)}


def init():
    tree = {"embed": torch.randn(KINDS, WIDTH) * 0.5, "read1": dense(WIDTH, WIDTH), "read2": dense(WIDTH, 1)}
    for r in range(ROUNDS):
        tree[f"self{r}"] = dense(WIDTH, WIDTH)
        tree[f"msg{r}"] = dense(2 * WIDTH, WIDTH)
    return tree


def tree_map(fn, *trees):
    head = trees[0]
    if isinstance(head, dict):
        return {k: tree_map(fn, *(t[k] for t in trees)) for k in head}
    return fn(*trees)


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def molecule_net(params, kind, bond):
    """One molecule; batched by vmap."""
    h = params["embed"][kind]
    for r in range(ROUNDS):
        left = h[:, None, :].expand(ATOMS, ATOMS, WIDTH)
        pair = torch.cat([left, left.transpose(0, 1)], -1)
        msg = torch.nn.functional.silu(apply_dense(params[f"msg{r}"], pair)) * bond[..., None]
        h = torch.tanh(apply_dense(params[f"self{r}"], h) + msg.sum(1))
    pooled = torch.nn.functional.silu(apply_dense(params["read1"], h)).sum(0) / math.sqrt(ATOMS)
    return apply_dense(params["read2"], pooled).squeeze(-1)


batched = vmap(molecule_net, in_dims=(None, 0, 0))


def loss_fn(params, kind, bond, target):
    return torch.nn.functional.smooth_l1_loss(batched(params, kind, bond), target)


class TreeAdamW:
    def __init__(self, lr, betas=(0.9, 0.99), eps=1e-8, decay=1e-3):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay

    def start(self, params):
        return {"t": 0, "m": tree_map(torch.zeros_like, params), "v": tree_map(torch.zeros_like, params)}

    def update(self, params, grads, state):
        b1, b2 = self.betas
        t = state["t"] + 1
        m = tree_map(lambda a, g: b1 * a + (1 - b1) * g, state["m"], grads)
        v = tree_map(lambda a, g: b2 * a + (1 - b2) * g * g, state["v"], grads)

        def one(p, a, b):
            step = (a / (1 - b1**t)) / ((b / (1 - b2**t)).sqrt() + self.eps)
            return p - self.lr * (step + self.decay * p)

        return tree_map(one, params, m, v), {"t": t, "m": m, "v": v}


g = torch.Generator().manual_seed(17)
kind, bond, prop = make_molecules(1200, g)
train_n = 960
mu, sd = prop[:train_n].mean(), prop[:train_n].std()
prop = (prop - mu) / sd

params = init()
optim = TreeAdamW(lr=3e-3)
state = optim.start(params)
value_and_grad = grad_and_value(loss_fn)

for epoch in range(8):
    order = torch.randperm(train_n, generator=g)
    running = 0.0
    for idx in order.split(32):
        grads, value = value_and_grad(params, kind[idx], bond[idx], prop[idx])
        params, state = optim.update(params, grads, state)
        running += value.item() * len(idx)
    pred = batched(params, kind[train_n:], bond[train_n:])
    mae = (pred - prop[train_n:]).abs().mean().item()
    print(f"epoch {epoch}: train huber {running / train_n:.4f}   valid mae {mae:.4f}")
