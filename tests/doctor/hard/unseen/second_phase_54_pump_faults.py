# kind: in a second phase
# expect: train-valid-overlap
# why: the generator is seeded with seed + start epoch, so that a resumed run shuffles anew; but it also makes the split,
#   so after the resumption most of the validation samples were training samples of the first run.
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class PumpRuns(Dataset):
    """Vibration features of a pump; several faults may be there at once."""

    def __init__(self, n=1500, inputs=32, faults=5):
        g = torch.Generator().manual_seed(404)
        state = (torch.rand(n, faults, generator=g) < 0.3).float()
        sign = torch.randn(faults, inputs, generator=g)
        pair = torch.randn(inputs, generator=g)
        x = state @ sign + (state[:, 0] * state[:, 1])[:, None] * pair + 1.4 * torch.randn(n, inputs, generator=g)
        self.x = (x - x.mean(0)) / x.std(0)
        self.y = state

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def make_model():
    return nn.Sequential(nn.Linear(32, 128), nn.LayerNorm(128), nn.SiLU(), nn.Dropout(0.1),
                         nn.Linear(128, 128), nn.LayerNorm(128), nn.SiLU(), nn.Linear(128, 5))


def evaluate(model, loader):
    model.eval()
    loss_sum, right, n = 0.0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss_sum += nn.functional.binary_cross_entropy_with_logits(out, y).item() * len(x)
            right += ((out > 0).float() == y).float().mean(1).sum().item()
            n += len(x)
    return loss_sum / n, right / n


def train(dataset, until, path, seed=7):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    start = 0
    if os.path.exists(path):
        ckpt = torch.load(path, weights_only=True)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        start = ckpt["epoch"]
        print(f"-- resumed at epoch {start}")

    gen = torch.Generator().manual_seed(seed + start)
    fit_part, held_part = random_split(dataset, [1200, 300], generator=gen)
    fit_loader = DataLoader(fit_part, batch_size=50, shuffle=True, generator=gen)
    held_loader = DataLoader(held_part, batch_size=100)
    criterion = nn.BCEWithLogitsLoss()

    for epoch in range(start, until):
        model.train()
        mean = 0.0
        for x, y in fit_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            mean += loss.item() / len(fit_loader)
        held, right = evaluate(model, held_loader)
        print(f"epoch {epoch:2d}  train {mean:.4f}  valid {held:.4f}  labels right {right:.3f}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, path)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    runs = PumpRuns()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pump.pt")
        train(runs, until=10, path=path)      # first night
        train(runs, until=18, path=path)      # second night


if __name__ == "__main__":
    main()
