# kind: second_phase
# expect: nothing
# why: One optimizer per phase on purpose, frozen BatchNorm in eval mode, encoder added when unfrozen, best weights copied, full resume.
"""Denoising pretraining on tabular rows, then a classifier with a frozen and later an unfrozen encoder."""
import copy
import io

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CODE, CLASSES = 20, 48, 3


def make_rows(n: int, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    latent = torch.randn(n, 6, generator=gen)
    mix = torch.randn(6, FEATURES, generator=torch.Generator().manual_seed(5))
    rows = torch.tanh(latent @ mix * 0.5) * 3 + 0.3 * torch.randn(n, FEATURES, generator=gen) + 1.5
    score = torch.stack([latent[:, 0] * latent[:, 1], latent[:, 2] + latent[:, 3], latent[:, 4] - latent[:, 5].abs()], 1)
    return rows, (score + 0.2 * torch.randn(n, CLASSES, generator=gen)).argmax(1)


def encoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(FEATURES, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, CODE), nn.BatchNorm1d(CODE), nn.ReLU()
    )


class RowClassifier(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Sequential(nn.Linear(CODE, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, CLASSES))
        self.body_frozen = False

    def set_frozen(self, frozen: bool) -> None:
        self.body_frozen = frozen
        self.body.requires_grad_(not frozen)

    def train(self, mode: bool = True) -> "RowClassifier":
        super().train(mode)
        if self.body_frozen:
            self.body.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def corrupt(x: torch.Tensor, p: float = 0.2) -> torch.Tensor:
    """Swap noise: some cells take the value of the same column in another row."""
    donors = x[torch.randperm(len(x))]
    return torch.where(torch.rand_like(x) < p, donors, x)


def pretrain(body: nn.Module, rows: torch.Tensor, epochs: int) -> None:
    decoder = nn.Sequential(nn.Linear(CODE, 96), nn.ReLU(), nn.Linear(96, FEATURES))
    opt = torch.optim.Adam([*body.parameters(), *decoder.parameters()], lr=2e-3)
    loader = DataLoader(TensorDataset(rows), batch_size=128, shuffle=True, drop_last=True)
    body.train()
    for epoch in range(epochs):
        total = 0.0
        for (x,) in loader:
            loss = F.mse_loss(decoder(body(corrupt(x))), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"[denoise] {epoch} {total / len(loader):.4f}")


def run_epoch(net: RowClassifier, loader: DataLoader, opt: torch.optim.Optimizer) -> float:
    net.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(net: RowClassifier, loader: DataLoader) -> tuple[float, float]:
    net.eval()
    loss, hits, seen = 0.0, 0, 0
    for x, y in loader:
        logits = net(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        hits += (logits.argmax(1) == y).sum().item()
        seen += len(y)
    return loss / seen, hits / seen


def build(body: nn.Module, joined: bool) -> tuple[RowClassifier, torch.optim.Optimizer]:
    net = RowClassifier(body)
    net.set_frozen(not joined)
    opt = torch.optim.AdamW(net.head.parameters(), lr=2e-3, weight_decay=1e-3)
    if joined:
        opt.add_param_group({"params": list(net.body.parameters()), "lr": 5e-4})
    return net, opt


def main() -> None:
    torch.manual_seed(3)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(17)
    pool, _ = make_rows(6000, gen)
    train_x, train_y = make_rows(2000, gen)
    valid_x, valid_y = make_rows(1000, gen)
    mean, std = pool.mean(0), pool.std(0)
    pool, train_x, valid_x = ((t - mean) / std for t in (pool, train_x, valid_x))

    body = encoder()
    pretrain(body, pool, epochs=8)
    train = DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(valid_x, valid_y), batch_size=250)

    net, opt = build(body, joined=False)
    best, best_state = float("inf"), copy.deepcopy(net.state_dict())
    disk = io.BytesIO()
    for epoch in range(18):
        if epoch == 5:
            net.set_frozen(False)
            opt.add_param_group({"params": list(net.body.parameters()), "lr": 5e-4})
        if epoch == 10:
            torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, disk)
            disk.seek(0)
            saved = torch.load(disk, weights_only=True)
            net, opt = build(encoder(), joined=True)
            net.load_state_dict(saved["net"])
            opt.load_state_dict(saved["opt"])
        loss = run_epoch(net, train, opt)
        score, acc = evaluate(net, valid)
        if score < best:
            best, best_state = score, copy.deepcopy(net.state_dict())
        print(f"[classify] {epoch} train {loss:.4f} valid {score:.4f} acc {acc:.3f}")
    net.load_state_dict(best_state)
    print("restored: valid {:.4f} acc {:.3f}".format(*evaluate(net, valid)))


if __name__ == "__main__":
    main()
