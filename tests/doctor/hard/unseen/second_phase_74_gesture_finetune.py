# kind: in a second phase
# expect: dropout-extreme
# why: fit_stage() of the classification stage writes the recipe's keep probability (0.9) into Dropout.p, so from step 240 on nine tenths of the activations are dropped. The pretraining stage uses 0.1 and is right.
"""Wrist-worn IMU gestures: masked reconstruction first, then a gesture classifier on top."""
import math
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(11)
rng = np.random.default_rng(11)

CHANNELS, LENGTH, GESTURES = 6, 32, 5

# recipes are shared with the TensorFlow team, one yaml per stage in the real repo
RECIPES = {
    "reconstruct": {"steps": 240, "lr": 2e-3, "overrides": {}},
    "gesture": {"steps": 180, "lr": 1e-3, "overrides": {"hidden_keep_prob": 0.9, "label_smoothing": 0.05}},
}


def record(n):
    y = rng.integers(0, GESTURES, n)
    t = np.linspace(0, 2 * math.pi, LENGTH)
    x = np.empty((n, CHANNELS, LENGTH), dtype=np.float32)
    for c in range(CHANNELS):
        freq = 1 + (y + c) % GESTURES
        phase = rng.uniform(0, 0.8, n) + 0.4 * y
        x[:, c] = np.sin(freq[:, None] * t + phase[:, None])
    x += 2.6 * rng.standard_normal(x.shape)
    return torch.from_numpy(x), torch.from_numpy(y)


class Encoder(nn.Module):
    def __init__(self, width=96, drop=0.1):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(CHANNELS * LENGTH, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(drop),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(drop),
            nn.Linear(width, width), nn.GELU(), nn.Dropout(drop),
        )

    def forward(self, x):
        return self.net(x)


def set_regulariser(model, key, value):
    if key.startswith("hidden"):
        for m in model.modules():
            if isinstance(m, nn.Dropout):
                m.p = value
        return {}
    return {key: value}


def fit_stage(name, model, loader, make_loss):
    recipe = RECIPES[name]
    loss_kw = {}
    for key, value in recipe["overrides"].items():
        loss_kw.update(set_regulariser(model, key, value))
    opt = torch.optim.AdamW(model.parameters(), lr=recipe["lr"], weight_decay=1e-3)
    model.train()
    step, running = 0, 0.0
    while step < recipe["steps"]:
        for x, y in loader:
            loss = make_loss(model, x, y, **loss_kw)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            running = 0.95 * running + 0.05 * loss.item()
            if step % 60 == 0:
                print(f"[{name}] step {step:4d}  loss {running / (1 - 0.95 ** step):.4f}")
            if step == recipe["steps"]:
                break


def masked_reconstruction(model, x, _):
    keep = (torch.rand(x.shape[0], 1, LENGTH) > 0.3).float()
    out = model(x * keep).view_as(x)
    return ((out - x) ** 2 * (1 - keep)).sum() / ((1 - keep).sum() * CHANNELS)


def classification(model, x, y, label_smoothing=0.0):
    return nn.functional.cross_entropy(model(x), y, label_smoothing=label_smoothing)


@torch.no_grad()
def report(model, x, y):
    model.eval()
    out = model(x)
    nll = nn.functional.cross_entropy(out, y).item()
    print(f"test accuracy {(out.argmax(1) == y).float().mean().item():.3f} nll {nll:.3f}")


def main():
    unlabeled, _y = record(3000)
    x_tr, y_tr = record(800)
    x_te, y_te = record(1000)
    encoder = Encoder()
    decoder = nn.Sequential(encoder, nn.Linear(96, CHANNELS * LENGTH))
    fit_stage("reconstruct", decoder, DataLoader(TensorDataset(unlabeled, _y), 64, shuffle=True), masked_reconstruction)
    classifier = nn.Sequential(encoder, nn.Linear(96, GESTURES))
    fit_stage("gesture", classifier, DataLoader(TensorDataset(x_tr, y_tr), 64, shuffle=True), classification)
    report(classifier, x_te, y_te)


if __name__ == "__main__":
    main()
