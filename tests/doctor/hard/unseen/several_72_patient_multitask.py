# kind: several losses
# expect: detached-loss
# also: dead-parameter
# why: in_units_of() returns main * (value / main).detach(), which has the value of the auxiliary loss but the gradient of the main one; the two auxiliary losses never train anything and their heads stay as they were initialised, while the reported sum looks right.
"""Multi-task model on patient records: outcome, length of stay and ward, with balanced losses."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(6)

FEATURES, WARDS = 24, 5


def records(n, seed):
    gen = torch.Generator().manual_seed(seed)
    world = torch.Generator().manual_seed(900)
    proj = torch.randn(FEATURES, 8, generator=world) / FEATURES ** 0.5
    to_ward = torch.randn(8, WARDS, generator=world)
    x = torch.randn(n, FEATURES, generator=gen)
    z = torch.tanh(2 * x @ proj)
    outcome = (z[:, 0] * z[:, 1] + 0.5 * z[:, 2] > 0).long()
    stay = z[:, 3] - z[:, 4] + 0.1 * torch.randn(n, generator=gen)
    ward = (z @ to_ward).argmax(1)
    return TensorDataset(x, outcome, stay, ward)


class PatientNet(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleDict({"outcome": nn.Linear(width, 2), "stay": nn.Linear(width, 1),
                                    "ward": nn.Linear(width, WARDS)})

    def forward(self, x):
        h = self.trunk(x)
        out = {name: head(h) for name, head in self.heads.items()}
        out["stay"] = out["stay"].squeeze(1)
        return out


def in_units_of(main, value):
    """An auxiliary loss expressed as a multiple of the main loss."""
    ratio = (value / main.clamp_min(1e-8)).detach()
    return main * ratio


class Objective:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, out, outcome, stay, ward):
        parts = {"outcome": F.cross_entropy(out["outcome"], outcome),
                 "stay": F.smooth_l1_loss(out["stay"], stay),
                 "ward": F.cross_entropy(out["ward"], ward)}
        total = parts["outcome"]
        for name, w in self.weights.items():
            total = total + w * in_units_of(parts["outcome"], parts[name])
        return total, {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def report(model, data):
    model.eval()
    x, outcome, stay, ward = data.tensors
    out = model(x)
    model.train()
    return {"outcome acc": (out["outcome"].argmax(1) == outcome).float().mean().item(),
            "stay mae": (out["stay"] - stay).abs().mean().item(),
            "ward acc": (out["ward"].argmax(1) == ward).float().mean().item()}


def main():
    train, val = records(4096, 1), records(1000, 2)
    loader = DataLoader(train, batch_size=128, shuffle=True)
    model = PatientNet()
    objective = Objective({"stay": 0.5, "ward": 0.3})
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    for epoch in range(1, 9):
        running = 0.0
        for x, *targets in loader:
            loss, _ = objective(model(x), *targets)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(x)
        if epoch % 2 == 0:
            scores = "  ".join(f"{k} {v:.3f}" for k, v in report(model, val).items())
            print(f"epoch {epoch}  loss {running / len(train):.3f}  {scores}")


if __name__ == "__main__":
    main()
