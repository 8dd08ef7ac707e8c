# kind: numbers
# expect: symmetric-weights
# why: the "he" initialiser draws one row of fan_in numbers and copy_ broadcasts it, so every unit of a
#   layer begins with the same weights.
import math

import numpy as np
import torch
from torch import nn

INITIALISERS = {}


def register(name):
    def wrap(fn):
        INITIALISERS[name] = fn
        return fn
    return wrap


@register("glorot")
def glorot(weight):
    fan_out, fan_in = weight.shape
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    weight.copy_((torch.rand(fan_out, fan_in) * 2 - 1) * bound)


@register("he")
def he(weight):
    fan_in = weight.size(1)
    weight.copy_(torch.randn(fan_in) * math.sqrt(2.0 / fan_in))


@register("lecun")
def lecun(weight):
    weight.copy_(torch.randn_like(weight) / math.sqrt(weight.size(1)))


def build(sizes, hidden_init, output_init):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        lin = nn.Linear(a, b)
        last = i == len(sizes) - 2
        with torch.no_grad():
            INITIALISERS[output_init if last else hidden_init](lin.weight)
            lin.bias.zero_()
        layers.append(lin)
        if not last:
            layers.append(nn.SiLU())
    return nn.Sequential(*layers)


def wine_table(n, rng):
    """Eleven measured quantities in their own units and a grade of five."""
    latent = rng.normal(size=(n, 11))
    scale = np.array([1.7, 0.18, 0.19, 1.4, 0.05, 10.5, 33, 0.9, 0.15, 0.17, 1.1])
    shift = np.array([8.3, 0.53, 0.27, 2.5, 0.09, 15.9, 46, 5.1, 3.3, 0.66, 10.4])
    quality = (latent[:, 10] - 0.8 * latent[:, 1] + 0.9 * latent[:, 9] * latent[:, 3]
               - 0.7 * np.abs(latent[:, 8]) + 0.25 * rng.normal(size=n))
    edges = np.quantile(quality, [0.2, 0.4, 0.6, 0.8])
    return (latent * scale + shift).astype(np.float32), np.digitize(quality, edges)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(dim=1)
    hit = (pred == y).float().mean().item()
    near = ((pred - y).abs() <= 1).float().mean().item()
    return hit, near


def main(seed=13, n=3000, n_train=2400, batch=50, epochs=10):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = wine_table(n, np.random.default_rng(seed))
    mean, std = x[:n_train].mean(0), x[:n_train].std(0)
    x, y = torch.from_numpy((x - mean) / std), torch.from_numpy(y)

    model = build([11, 64, 64, 5], hidden_init="he", output_init="lecun")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(n_train).split(batch):
            loss = loss_fn(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        hit, near = evaluate(model, x[n_train:], y[n_train:])
        print(f"epoch {epoch:2d} loss {total / n_train:.4f} exact {hit:.3f} within one {near:.3f}")


if __name__ == "__main__":
    main()
