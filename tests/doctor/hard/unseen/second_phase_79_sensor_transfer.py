# kind: in a second phase
# expect: stale-optimizer
# also: parameter-not-optimized
# why: In the transfer phase setup_phase builds the AdamW first and only then calls model.adapt(), which replaces the head; the optimizer keeps the old head and the new one stays at its random values.
"""Pretrain a sensor encoder on machine ids, then transfer it to fault classes."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(11)

CHANNELS, WIDTH = 24, 48
PHASES = [
    dict(name="pretext", classes=12, epochs=7, lr=2e-3, encoder_scale=1.0, seed=1),
    dict(name="faults", classes=12, epochs=8, lr=1e-3, encoder_scale=0.05, seed=2),
]


class SensorNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(CHANNELS, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(),
            nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.head = None
        self.adapt(classes)

    def adapt(self, classes):
        self.head = nn.Linear(WIDTH, classes)
        return self

    def forward(self, x):
        return self.head(self.encoder(x))


def make_data(phase, n):
    g = torch.Generator().manual_seed(phase["seed"])
    centres = torch.randn(phase["classes"], CHANNELS, generator=g)
    y = torch.randint(phase["classes"], (n,), generator=g)
    x = centres[y] + 0.9 * torch.randn(n, CHANNELS, generator=g)
    cut = n - 512
    return TensorDataset(x[:cut], y[:cut]), (x[cut:], y[cut:])


def param_groups(model, phase):
    return [
        {"params": model.encoder.parameters(), "lr": phase["lr"] * phase["encoder_scale"]},
        {"params": model.head.parameters(), "lr": phase["lr"]},
    ]


def setup_phase(model, phase):
    if model is None:
        model = SensorNet(phase["classes"])
        return model, torch.optim.AdamW(param_groups(model, phase), weight_decay=1e-2)
    optimizer = torch.optim.AdamW(param_groups(model, phase), weight_decay=1e-2)
    model.adapt(phase["classes"])
    return model, optimizer


@torch.no_grad()
def accuracy(model, xy):
    model.eval()
    hits = (model(xy[0]).argmax(1) == xy[1]).float().mean().item()
    model.train()
    return hits


def run_phase(model, optimizer, phase):
    train, valid = make_data(phase, 2560 + 512)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    for epoch in range(phase["epochs"]):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"{phase['name']:8s} epoch {epoch} loss {total / len(loader):.3f} "
              f"valid acc {accuracy(model, valid):.3f}")


def main():
    model = None
    for phase in PHASES:
        model, optimizer = setup_phase(model, phase)
        run_phase(model, optimizer, phase)


if __name__ == "__main__":
    main()
