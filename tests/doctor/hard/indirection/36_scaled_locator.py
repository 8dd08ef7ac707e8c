# kind: behind indirection
# expect: nothing
# like: clip-before-unscale
# why: Nobody calls unscale_ and the clipping is nowhere near the loop, but it lives in the optimizer's pre-step hook,
#      which GradScaler.step reaches only after it has unscaled the gradients itself.
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
CFG = dict(seed=2, epochs=8, batch=32, lr=3e-3, clip=1.0, half=True, init_scale=1024.0)


class Spots(Dataset):
    """One Gaussian spot on a noisy plate; the label is its centre and whether it is ring-shaped."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        grid = torch.linspace(-1, 1, 20)
        self.xy = torch.rand(n, 2, generator=g) * 1.4 - 0.7
        self.ring = torch.randint(0, 2, (n,), generator=g).float()
        d2 = (grid[None, None, :] - self.xy[:, 0, None, None]) ** 2 + (grid[None, :, None] - self.xy[:, 1, None, None]) ** 2
        blob = torch.exp(-d2 / 0.05)
        ring = torch.exp(-((d2.sqrt() - 0.28) ** 2) / 0.01)
        img = torch.where(self.ring[:, None, None] > 0, ring, blob) * 2
        self.img = (img + 0.3 * torch.randn(img.shape, generator=g))[:, None]

    def standardise(self, mean, std):
        self.img = (self.img - mean) / std
        return self

    def __len__(self):
        return len(self.xy)

    def __getitem__(self, i):
        return self.img[i], self.xy[i], self.ring[i]


class Locator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.fc = nn.Linear(24 * 25, 48)
        self.where = nn.Linear(48, 2)
        self.what = nn.Linear(48, 1)

    def forward(self, x):
        h = F.relu(self.conv2(F.relu(self.conv1(x))))
        h = F.relu(self.fc(h.flatten(1)))
        return self.where(h), self.what(h).squeeze(1)


def guard(opt, limit):
    """From now on every step of this optimizer is taken with bounded gradients."""
    params = [p for grp in opt.param_groups for p in grp["params"]]

    def bound(*_):
        nn.utils.clip_grad_norm_(params, limit)

    opt.register_step_pre_hook(bound)
    return opt


class Stepper:
    def __init__(self, opt, cfg):
        self.opt = opt
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg["init_scale"], enabled=cfg["half"])
        self.cast = (lambda: torch.autocast("cpu", dtype=torch.float16)) if cfg["half"] else contextlib.nullcontext

    def __call__(self, closure):
        self.opt.zero_grad()
        with self.cast():
            loss = closure()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def loss_of(model, img, xy, ring):
    where, what = model(img)
    return F.smooth_l1_loss(where.float(), xy) * 4 + F.binary_cross_entropy_with_logits(what.float(), ring)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    train = Spots(960, 100)
    mean, std = train.img.mean(), train.img.std()
    train.standardise(mean, std)
    valid = Spots(240, 200).standardise(mean, std)
    loader = DataLoader(train, cfg["batch"], shuffle=True)
    model = Locator()
    step = Stepper(guard(torch.optim.Adam(model.parameters(), lr=cfg["lr"]), cfg["clip"]), cfg)
    for epoch in range(cfg["epochs"]):
        model.train()
        losses = [step(lambda: loss_of(model, *batch)) for batch in loader]
        model.eval()
        with torch.no_grad(), step.cast():
            where, what = model(valid.img)
        off = (where.float() - valid.xy).norm(dim=1).mean().item()
        acc = ((what > 0).float() == valid.ring).float().mean().item()
        print(f"{epoch}: loss {sum(losses) / len(losses):.4f} offset {off:.3f} ring acc {acc:.3f} scale {step.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main(CFG)
