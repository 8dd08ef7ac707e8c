# kind: in a second phase
# expect: nothing
# why: a resumed job (model, optimizer, scheduler loaded from one checkpoint; the lr in the checkpoint is meant to win), then fine-tuning with a frozen trunk whose BatchNorm is held in eval by train(), a new head, strict=False with the keys checked, and a new optimizer for the new parameters: all on purpose and right.
"""Land-cover CNN: job interrupted and resumed, later adapted to a new sensor's classes."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(21)


def tiles(n, gen, classes, gain=1.0):
    y = torch.randint(0, classes, (n,), generator=gen)
    basis = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1000))
    x = gain * basis[y] * 0.22 + torch.randn(n, 3, 8, 8, generator=gen)
    return x, y


class Trunk(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Flatten())


class CoverNet(nn.Module):
    def __init__(self, classes, frozen=False):
        super().__init__()
        self.trunk = Trunk()
        self.head = nn.Linear(32 * 16, classes)
        self.frozen = frozen
        if frozen:
            self.trunk.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.trunk.eval()
        return self

    def forward(self, x):
        return self.head(self.trunk(x))


def build(classes, steps):
    model = CoverNet(classes)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    return model, opt, sched


def train(model, opt, data, gen, first, last, sched=None, tag=""):
    model.train()
    x, y = data
    for step in range(first, last):
        idx = torch.randint(0, len(x), (64,), generator=gen)
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if sched is not None:
            sched.step()
        if (step + 1) % 50 == 0:
            print(f"{tag} {step + 1:4d}  loss {loss.item():.3f}  lr {opt.param_groups[0]['lr']:.4f}")


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(2)
    data, held = tiles(2000, gen, 5), tiles(500, gen, 5)
    total = 250

    model, opt, sched = build(5, total)
    train(model, opt, data, gen, 0, 150, sched, "job one")
    blob = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(),
                "sched": sched.state_dict(), "step": 150}, blob)
    del model, opt, sched

    blob.seek(0)
    ckpt = torch.load(blob)
    model, opt, sched = build(5, total)
    model.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["opt"])
    sched.load_state_dict(ckpt["sched"])
    train(model, opt, data, gen, ckpt["step"], total, sched, "resumed")
    print(f"accuracy {accuracy(model, held):.3f}")

    new, new_held = tiles(900, gen, 8, gain=0.7), tiles(500, gen, 8, gain=0.7)
    tuned = CoverNet(8, frozen=True)
    weights = {k: v for k, v in model.state_dict().items() if k.startswith("trunk.")}
    result = tuned.load_state_dict(weights, strict=False)
    if set(result.missing_keys) != {"head.weight", "head.bias"} or result.unexpected_keys:
        raise RuntimeError(f"checkpoint does not fit: {result}")
    opt = torch.optim.Adam(tuned.head.parameters(), lr=2e-3)
    train(tuned, opt, new, gen, 0, 150, None, "adapted")
    print(f"accuracy on the new sensor {accuracy(tuned, new_held):.3f}")


if __name__ == "__main__":
    main()
