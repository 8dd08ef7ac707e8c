# kind: in a second phase
# expect: nothing
# why: Staged unfreezing: a fresh optimizer per stage over the newly trainable parameters is intended, the frozen encoder (with BatchNorm) is held in eval mode while frozen, and the best state is cloned before it is restored.
"""Fine-tune a pretrained encoder: head first, then everything with a lower rate."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(64, classes)
        self.frozen = False

    def freeze(self, flag):
        self.frozen = flag
        self.encoder.requires_grad_(not flag)
        return self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def forward(self, x):
        return self.head(self.dropout(self.encoder(x)))


def make_task(seed, classes, n):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(20, classes, generator=g)
    x = torch.randn(n, 20, generator=g)
    y = (x @ w + 1.5 * torch.tanh(x.roll(1, 1) * x) @ w).argmax(1)
    return (x[:-512], y[:-512]), (x[-512:], y[-512:])


@torch.no_grad()
def score(model, x, y):
    model.eval()
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def fit(model, train, valid, epochs, lr, label, snapshot=None):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(params, lr=lr)
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    best = snapshot or (0.0, None)
    model.train()
    for epoch in range(epochs):
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        acc = score(model, *valid)
        if acc >= best[0]:
            best = (acc, {k: v.detach().clone() for k, v in model.state_dict().items()})
        print(f"{label:9s} epoch {epoch} loss {loss.item():.3f} valid {acc:.3f}")
    return best


def main():
    source_train, source_valid = make_task(1, 6, 2560 + 512)
    model = Net(6)
    fit(model, source_train, source_valid, 5, 2e-3, "pretrain")

    train, valid = make_task(2, 4, 1280 + 512)
    model.head = nn.Linear(64, 4)
    model.freeze(True)
    best = fit(model, train, valid, 4, 3e-3, "head")
    model.freeze(False)
    best = fit(model, train, valid, 6, 1e-3, "all", best)
    model.load_state_dict(best[1])
    print(f"restored best: {score(model, *valid):.3f}")


if __name__ == "__main__":
    main()
