# kind: several losses
# expect: dead-parameter
# also: layer-shared-by-accident
# why: The readouts are lambdas made in a loop over the targets and all of them look up the last name, so every loss goes through the "quality" head; the other two heads sit in the optimizer and never get a gradient.
"""Process model with three targets, one trunk and separate optimizers."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(71)

TARGETS = {
    "throughput": dict(weight=1.0, loss=F.mse_loss),
    "energy": dict(weight=0.5, loss=F.smooth_l1_loss),
    "quality": dict(weight=1.0, loss=F.mse_loss),
}


class ProcessModel(nn.Module):
    def __init__(self, features, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.SiLU(),
                                   nn.Linear(hidden, hidden), nn.SiLU())
        self.heads = nn.ModuleDict(
            {name: nn.Sequential(nn.Linear(hidden, 16), nn.SiLU(), nn.Linear(16, 1))
             for name in TARGETS})
        self._readout = {}
        for name in TARGETS:
            self._readout[name] = lambda h: self.heads[name](h).squeeze(-1)

    def forward(self, x):
        h = self.trunk(x)
        return {name: read(h) for name, read in self._readout.items()}


def make_data(n, g, w):
    x = torch.randn(n, 14, generator=g)
    h = torch.tanh(x @ w)
    cols = [h[:, 0] + h[:, 1], h[:, 2] - 0.8 * h[:, 1], h[:, 3] * h[:, 0] - h[:, 2]]
    y = torch.stack(cols, 1) + 0.05 * torch.randn(n, 3, generator=g)
    return x, y


def losses(model, x, y):
    out = model(x)
    return {name: spec["loss"](out[name], y[:, i])
            for i, (name, spec) in enumerate(TARGETS.items())}


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    out = model(x)
    scores = {name: 1 - F.mse_loss(out[name], y[:, i]).item() / y[:, i].var().item()
              for i, name in enumerate(TARGETS)}
    model.train()
    return scores


def main():
    g = torch.Generator().manual_seed(19)
    w = torch.randn(14, 4, generator=g) / 2
    train, valid = make_data(4096, g, w), make_data(1024, g, w)
    loader = DataLoader(TensorDataset(*train), batch_size=128, shuffle=True)
    model = ProcessModel(14)
    optimizers = {
        "trunk": torch.optim.AdamW(model.trunk.parameters(), lr=1e-3, weight_decay=1e-2),
        "heads": torch.optim.Adam(model.heads.parameters(), lr=3e-3),
    }

    for epoch in range(8):
        for x, y in loader:
            parts = losses(model, x, y)
            total = sum(TARGETS[k]["weight"] * v for k, v in parts.items())
            for opt in optimizers.values():
                opt.zero_grad()
            total.backward()
            for opt in optimizers.values():
                opt.step()
        if epoch % 2 == 1:
            text = " ".join(f"{k} {v:.3f}" for k, v in r2(model, *valid).items())
            print(f"epoch {epoch + 1} loss {total.item():.3f} valid r2: {text}")


if __name__ == "__main__":
    main()
