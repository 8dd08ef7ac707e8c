# kind: indirection
# expect: parameter-not-optimized
# why: The task weighting made by the registry is a module with learnable log-variances that get gradients, but build_optimizer
#      is given the network's parameters only, so the weighting never learns.
"""Multi-task property prediction, everything built from a config dict through registries."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Registry(dict):
    def register(self, name):
        def add(obj):
            self[name] = obj
            return obj
        return add

    def build(self, spec, **extra):
        spec = dict(spec)
        return self[spec.pop("type")](**spec, **extra)


BACKBONES, WEIGHTINGS, OPTIMIZERS = Registry(), Registry(), Registry()

CONFIG = {
    "seed": 21,
    "epochs": 10,
    "batch_size": 64,
    "tasks": {"solubility": {"out": 1, "loss": "mse"}, "toxic": {"out": 1, "loss": "bce"}, "family": {"out": 5, "loss": "ce"}},
    "backbone": {"type": "residual_mlp", "width": 96, "depth": 3},
    "weighting": {"type": "uncertainty"},
    "optimizer": {"type": "adamw", "lr": 1e-3, "weight_decay": 1e-2},
}


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.body(self.norm(x))


@BACKBONES.register("residual_mlp")
def residual_mlp(inputs, width, depth):
    return nn.Sequential(nn.Linear(inputs, width), *[ResidualBlock(width) for _ in range(depth)], nn.LayerNorm(width))


@WEIGHTINGS.register("fixed")
class Fixed(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.scale = 1.0 / len(tasks)

    def forward(self, losses):
        return self.scale * sum(losses.values())


@WEIGHTINGS.register("uncertainty")
class Uncertainty(nn.Module):
    """Homoscedastic uncertainty weighting: each task's loss is scaled by a learned precision."""

    def __init__(self, tasks):
        super().__init__()
        self.log_var = nn.ParameterDict({t: nn.Parameter(torch.zeros(())) for t in tasks})

    def forward(self, losses):
        return sum(torch.exp(-self.log_var[t]) * loss + 0.5 * self.log_var[t] for t, loss in losses.items())


@OPTIMIZERS.register("adamw")
def adamw(params, lr, weight_decay):
    params = list(params)
    return torch.optim.AdamW([{"params": [p for p in params if p.ndim > 1], "weight_decay": weight_decay},
                              {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0}], lr=lr)


LOSSES = {
    "mse": lambda out, y: F.mse_loss(out.squeeze(-1), y),
    "bce": lambda out, y: F.binary_cross_entropy_with_logits(out.squeeze(-1), y),
    "ce": F.cross_entropy,
}


class MultiTask(nn.Module):
    def __init__(self, backbone, width, tasks):
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleDict({name: nn.Linear(width, t["out"]) for name, t in tasks.items()})

    def forward(self, x):
        z = self.backbone(x)
        return {name: head(z) for name, head in self.heads.items()}


def make_dataset(n, inputs, gen):
    x = torch.randn(n, inputs, generator=gen)
    w = torch.randn(inputs, 7, generator=gen) / inputs**0.5
    h = torch.tanh(2 * x @ w)
    solubility = h[:, 0] * h[:, 1] + 0.3 * torch.randn(n, generator=gen)
    toxic = (h[:, 1] + 0.5 * h[:, 2] + 0.3 * torch.randn(n, generator=gen) > 0).float()
    family = (h[:, 2:] + 0.2 * torch.randn(n, 5, generator=gen)).argmax(1)
    return TensorDataset(x, solubility, toxic, family)


def task_losses(outputs, targets, tasks):
    return {name: LOSSES[t["loss"]](outputs[name], targets[name]) for name, t in tasks.items()}


def run_epoch(model, weighting, loader, tasks, optimizer=None):
    model.train(optimizer is not None)
    weighting.train(optimizer is not None)
    sums, n = dict.fromkeys(tasks, 0.0), 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, *ys in loader:
            losses = task_losses(model(x), dict(zip(tasks, ys)), tasks)
            if optimizer is not None:
                optimizer.zero_grad()
                weighting.zero_grad()
                weighting(losses).backward()
                optimizer.step()
            for t, v in losses.items():
                sums[t] += v.item() * len(x)
            n += len(x)
    return {t: s / n for t, s in sums.items()}


def main(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    gen = torch.Generator().manual_seed(cfg["seed"])
    tasks, inputs = cfg["tasks"], 20
    train, valid = random_split(make_dataset(5120, inputs, gen), [4096, 1024], generator=gen)
    model = MultiTask(BACKBONES.build(cfg["backbone"], inputs=inputs), cfg["backbone"]["width"], tasks)
    weighting = WEIGHTINGS.build(cfg["weighting"], tasks=list(tasks))
    optimizer = OPTIMIZERS.build(cfg["optimizer"], params=model.parameters())
    loader = DataLoader(train, cfg["batch_size"], shuffle=True)
    for epoch in range(cfg["epochs"]):
        run_epoch(model, weighting, loader, tasks, optimizer)
        scores = run_epoch(model, weighting, DataLoader(valid, 256), tasks)
        print(epoch, "  ".join(f"{t} {v:.4f}" for t, v in scores.items()))


if __name__ == "__main__":
    main(CONFIG)
