# kind: in a second phase
# expect: nothing
# why: looks like a partial load, a re-created optimizer, an overwritten lr and an aliased best state, but missing keys are asserted to be the new head only, the optimizer state is carried over, the lr is set on purpose after loading, best weights are cloned, and frozen BatchNorm is put to eval.
"""Resume a job from its checkpoint, add a second head and continue with the backbone frozen."""
import io
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)
torch.manual_seed(0)
rng = np.random.default_rng(0)


def make_table(n=1600, d=24):
    x = rng.standard_normal((n, d)).astype(np.float32)
    w = rng.standard_normal((d, 8)).astype(np.float32) / np.sqrt(d)
    hidden = np.tanh(2 * x @ w)
    load = hidden @ rng.standard_normal(8).astype(np.float32) + 0.05 * rng.standard_normal(n)
    alarm = (hidden[:, 0] - hidden[:, 1] + 0.8 * hidden[:, 2] * hidden[:, 3] > 0).astype(np.int64)
    return TensorDataset(torch.from_numpy(x), torch.tensor(load, dtype=torch.float32)[:, None], torch.from_numpy(alarm))


class Plant(nn.Module):
    def __init__(self, d=24, with_alarm=False):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(d, 64), nn.BatchNorm1d(64), nn.ReLU(),
                                      nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
        self.load = nn.Linear(64, 1)
        if with_alarm:
            self.alarm = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))

    def train(self, mode=True):
        super().train(mode)
        if not next(self.backbone.parameters()).requires_grad:
            self.backbone.eval()
        return self


def first_job(loader):
    model = Plant()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        model.train()
        for x, load, _ in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model.load(model.backbone(x)), load)
            loss.backward()
            opt.step()
        print(f"job 1 epoch {epoch} last mse {loss.item():.4f}")
    blob = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, blob)
    return blob.getvalue()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    hits = se = n = 0
    for x, load, alarm in loader:
        h = model.backbone(x)
        hits += (model.alarm(h).argmax(1) == alarm).sum().item()
        se += (model.load(h) - load).pow(2).sum().item()
        n += len(x)
    return hits / n, se / n


def second_job(blob, train_loader, valid_loader):
    ckpt = torch.load(io.BytesIO(blob), weights_only=True)
    model = Plant(with_alarm=True)
    missing, unexpected = model.load_state_dict(ckpt["model"], strict=False)
    assert not unexpected and all(k.startswith("alarm.") for k in missing), (missing, unexpected)

    opt = torch.optim.Adam([*model.backbone.parameters(), *model.load.parameters()], lr=1e-3)
    opt.load_state_dict(ckpt["opt"])
    opt.param_groups[0]["lr"] = 2e-4
    model.backbone.requires_grad_(False)
    opt.add_param_group({"params": list(model.alarm.parameters()), "lr": 2e-3})

    best, best_acc = None, 0.0
    for epoch in range(12):
        model.train()
        for x, load, alarm in train_loader:
            opt.zero_grad()
            h = model.backbone(x)
            loss = nn.functional.cross_entropy(model.alarm(h), alarm) + nn.functional.mse_loss(model.load(h), load)
            loss.backward()
            opt.step()
        acc, mse = validate(model, valid_loader)
        if acc > best_acc:
            best_acc, best = acc, {k: v.detach().clone() for k, v in model.state_dict().items()}
        print(f"job 2 epoch {epoch} alarm acc {acc:.3f} load mse {mse:.4f}")
    model.load_state_dict(best)
    return model


def main():
    train_set, valid_set = random_split(make_table(), [1280, 320], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(train_set, 64, shuffle=True)
    valid_loader = DataLoader(valid_set, 160)
    model = second_job(first_job(train_loader), train_loader, valid_loader)
    print("best alarm acc %.3f, load mse %.4f" % validate(model, valid_loader))


main()
