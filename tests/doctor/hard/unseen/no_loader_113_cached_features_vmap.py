# kind: no_loader
# expect: nothing
# why: might be accused of loss-summed, symmetric-weights, parameter-not-optimized and optimizer-recreated; the sum runs over independent probes and each loss is a batch mean, a linear probe may begin at zero, and the frozen backbone is not trained in the second phase.
"""Rotation prediction as pretraining, cached features, and a whole grid of probes trained at once."""
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, vmap

SIDE, CLASSES = 12, 8


def make_images(n, prototypes, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    strength = 0.7 + 0.6 * torch.rand(n, 1, 1, 1, generator=gen)
    return prototypes[y] * strength + 2.0 * torch.randn(n, 1, SIDE, SIDE, generator=gen), y


def batches(n, size, gen):
    return torch.randperm(n, generator=gen).split(size)


def rotated(x, turns):
    out = torch.empty_like(x)
    for k in range(4):
        chosen = turns == k
        out[chosen] = torch.rot90(x[chosen], k, dims=(2, 3))
    return out


def make_backbone():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())


def pretrain(backbone, x, x_valid, gen, epochs=7):
    head = nn.Linear(32 * 9, 4)
    whole = nn.Sequential(backbone, head)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=2e-3, weight_decay=1e-2)
    turns_valid = torch.randint(0, 4, (len(x_valid),), generator=gen)
    x_valid = rotated(x_valid, turns_valid)
    for epoch in range(epochs):
        whole.train()
        for index in batches(len(x), 64, gen):
            turns = torch.randint(0, 4, (len(index),), generator=gen)
            optimizer.zero_grad()
            F.cross_entropy(whole(rotated(x[index], turns)), turns).backward()
            optimizer.step()
        whole.eval()
        with torch.no_grad():
            accuracy = (whole(x_valid).argmax(1) == turns_valid).float().mean().item()
        print(f"rotation epoch {epoch} valid accuracy {accuracy:.3f}")


@torch.no_grad()
def cache(backbone, sets, path):
    """Writes standardised features of every set; the scale comes from the training set."""
    backbone.eval().requires_grad_(False)
    features = {name: torch.cat([backbone(part) for part in x.split(256)]) for name, (x, _) in sets.items()}
    mean, std = features["train"].mean(0), features["train"].std(0) + 1e-5
    torch.save({name: ((f - mean) / std, sets[name][1]) for name, f in features.items()}, path)


def train_probes(features, labels, decays, gen, epochs=15):
    shell = nn.Linear(features.shape[1], CLASSES, device="meta")
    params = {name: torch.zeros(len(decays), *p.shape, requires_grad=True) for name, p in shell.named_parameters()}

    def probe_loss(weights, decay, x, y):
        penalty = 0.5 * decay * weights["weight"].square().sum()
        return F.cross_entropy(functional_call(shell, weights, (x,)), y) + penalty

    all_losses = vmap(probe_loss, in_dims=(0, 0, None, None))
    optimizer = torch.optim.SGD(params.values(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for index in batches(len(features), 100, gen):
            losses = all_losses(params, decays, features[index], labels[index])
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
        schedule.step()
    return {name: p.detach() for name, p in params.items()}


def accuracies(params, x, y):
    logits = torch.einsum("pcd,nd->pnc", params["weight"], x) + params["bias"][:, None]
    return (logits.argmax(-1) == y[None, :]).float().mean(dim=1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    prototypes = F.avg_pool2d(torch.randn(CLASSES, 1, SIDE, SIDE, generator=gen), 3, 1, 1) * 2.5
    sets = {name: make_images(n, prototypes, gen) for name, n in (("train", 3000), ("valid", 600), ("test", 600))}
    mean, std = sets["train"][0].mean(), sets["train"][0].std()
    sets = {name: ((x - mean) / std, y) for name, (x, y) in sets.items()}
    backbone = make_backbone()
    pretrain(backbone, sets["train"][0], sets["valid"][0], gen)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.pt"
        cache(backbone, sets, path)
        cached = torch.load(path, weights_only=True)
    decays = torch.tensor([0.0, 1e-3, 1e-2, 5e-2, 2e-1])
    params = train_probes(*cached["train"], decays, gen)
    valid = accuracies(params, *cached["valid"])
    chosen = int(valid.argmax())
    print("valid accuracy per decay", [round(a, 3) for a in valid.tolist()])
    print(f"decay {decays[chosen].item():g}, test accuracy {accuracies(params, *cached['test'])[chosen].item():.3f}")


if __name__ == "__main__":
    main()
