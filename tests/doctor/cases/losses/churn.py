import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ChurnModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        return torch.sigmoid(self.layers(x)).squeeze(1)


def synth(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    y = (x[:, :3].sum(1) + 0.3 * torch.randn(n, generator=g) > 0).float()
    return TensorDataset(x, y)


def run_epoch(model, loader, loss_fn, opt=None):
    training = opt is not None
    model.train(training)
    total, count = 0.0, 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            out = model(x)
            loss = loss_fn(out, y)
            if training:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(x)
            count += len(x)
    return total / count


def main(epochs=3):
    torch.manual_seed(0)
    train_loader = DataLoader(synth(480, 1), batch_size=32, shuffle=True)
    valid_loader = DataLoader(synth(160, 2), batch_size=80)
    model = ChurnModel()
    loss_fn = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for e in range(epochs):
        tr = run_epoch(model, train_loader, loss_fn, opt)
        va = run_epoch(model, valid_loader, loss_fn)
        print(f"epoch {e + 1} train {tr:.4f} valid {va:.4f}")


if __name__ == "__main__":
    main()
