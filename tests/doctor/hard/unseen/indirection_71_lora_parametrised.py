# kind: behind indirection
# expect: nothing
# why: low-rank adapters are put onto frozen weights with torch parametrisations before the optimizer is made; the base is frozen on purpose, the up-matrix starts at zero on purpose, and the merge at the end is checked.
"""Adapt a pretrained tabular network to another site with low-rank weight updates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize

torch.set_num_threads(1)
torch.manual_seed(8)
D, H = 20, 64


class LowRank(nn.Module):
    def __init__(self, out_features, in_features, rank=3):
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, in_features) / in_features ** 0.5)
        self.up = nn.Parameter(torch.zeros(out_features, rank))

    def forward(self, weight):
        return weight + self.up @ self.down


def network():
    return nn.Sequential(nn.Linear(D, H), nn.SiLU(), nn.Linear(H, H), nn.SiLU(), nn.Linear(H, 1))


def site(gen, shift):
    w1 = torch.randn(D, 6, generator=torch.Generator().manual_seed(77)) / D ** 0.5
    w2 = torch.randn(D, generator=torch.Generator().manual_seed(78)) / D ** 0.5

    def sample(n):
        x = torch.randn(n, D, generator=gen)
        y = torch.sin(1.5 * x @ w1).sum(1) + shift * 2.0 * (x @ w2)
        return x, y + 0.1 * torch.randn(n, generator=gen)
    return sample


def adapted(model, rank):
    model.requires_grad_(False)
    for layer in model:
        if isinstance(layer, nn.Linear) and layer.out_features > 1:
            parametrize.register_parametrization(
                layer, "weight", LowRank(layer.out_features, layer.in_features, rank))
    return [p for p in model.parameters() if p.requires_grad]


def fit(model, params, sample, steps, lr, tag):
    opt = torch.optim.Adam(params, lr=lr)
    for step in range(1, steps + 1):
        x, y = sample(128)
        loss = F.mse_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 150 == 0:
            print(f"{tag} {step:4d} mse {loss.item():.4f}")


@torch.no_grad()
def error(model, data):
    return F.mse_loss(model(data[0]).squeeze(1), data[1]).item()


def main():
    gen = torch.Generator().manual_seed(4)
    home, away = site(gen, 0.0), site(gen, 1.0)
    model = network()
    fit(model, model.parameters(), home, 600, 3e-3, "base")
    test_home, test_away = home(2000), away(2000)
    print(f"base: home {error(model, test_home):.3f}, away {error(model, test_away):.3f}")

    params = adapted(model, rank=3)
    print(f"{sum(p.numel() for p in params)} adapter weights")
    fit(model, params, away, 450, 5e-3, "lora")
    before = error(model, test_away)
    for layer in model:
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    after = error(model, test_away)
    assert abs(before - after) < 1e-5
    print(f"adapted and merged: away {after:.3f}")


if __name__ == "__main__":
    main()
