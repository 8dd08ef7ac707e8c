# kind: several losses
# expect: parameter-not-optimized
# why: the learned task weights (log_var of UncertaintyWeighting) live in the criterion, but build_optimizers collects only the network's parameters; they receive gradients on every step, never move, and the weighting stays at 1:1:1.
"""Multi-task network with learned task uncertainty: two regressions of very different scale and one classification."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(9)

TASKS = {"class": 4, "load": 1, "wear": 1}


class UncertaintyWeighting(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.log_var = nn.ParameterDict({n: nn.Parameter(torch.zeros(())) for n in names})

    def forward(self, losses):
        return sum(torch.exp(-self.log_var[n]) * l + 0.5 * self.log_var[n] for n, l in losses.items())

    def weights(self):
        return {n: round(torch.exp(-v).item(), 3) for n, v in self.log_var.items()}


class MultiTask(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(14, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleDict({n: nn.Linear(width, k) for n, k in TASKS.items()})

    def forward(self, x):
        h = self.shared(x)
        return {n: head(h) for n, head in self.heads.items()}


def build_optimizers(net):
    decay, plain = [], []
    for name, p in net.named_parameters():
        (plain if name.endswith("bias") else decay).append(p)
    trunk = torch.optim.AdamW([{"params": [p for p in decay if p.shape[0] > 4]}, {"params": [p for p in plain if p.shape[0] > 4], "weight_decay": 0.0}], lr=2e-3, weight_decay=1e-3)
    heads = torch.optim.Adam(net.heads.parameters(), lr=4e-3)
    return trunk, heads


def make_data(n, mix):
    x = torch.randn(n, 14)
    z = torch.tanh(x @ mix / 2)
    return x, {
        "class": (z[:, :4] + 0.2 * torch.randn(n, 4)).argmax(1),
        "load": 6.0 * z[:, 4:5] * z[:, 5:6] + 3.0 * torch.randn(n, 1),
        "wear": 0.05 * z[:, 6:7] + 0.01 * torch.randn(n, 1),
    }


def task_losses(out, target):
    return {
        "class": F.cross_entropy(out["class"], target["class"]),
        "load": F.mse_loss(out["load"], target["load"]),
        "wear": F.mse_loss(out["wear"], target["wear"]),
    }


def main():
    mix = torch.randn(14, 7)
    x, target = make_data(2400, mix)
    xv, tv = make_data(600, mix)
    net, criterion = MultiTask(), UncertaintyWeighting(TASKS)
    optimizers = build_optimizers(net)
    for epoch in range(16):
        net.train()
        for idx in torch.randperm(len(x)).split(80):
            out = net(x[idx])
            loss = criterion(task_losses(out, {n: t[idx] for n, t in target.items()}))
            for o in optimizers:
                o.zero_grad()
            loss.backward()
            for o in optimizers:
                o.step()
        if epoch % 4 == 3:
            net.eval()
            with torch.no_grad():
                out = net(xv)
                acc = (out["class"].argmax(1) == tv["class"]).float().mean().item()
                r2 = {n: 1 - (F.mse_loss(out[n], tv[n]) / tv[n].var()).item() for n in ("load", "wear")}
            print(f"epoch {epoch + 1:2d} acc {acc:.3f} R2 load {r2['load']:.3f} wear {r2['wear']:.3f}")
    print("task weights", criterion.weights())


if __name__ == "__main__":
    main()
