# kind: classes and callbacks
# expect: evaluated-in-train-mode
# why: FrozenStemNet.train(mode) calls super().train() without passing mode on; since eval() is train(False), the head's Dropout stays active in every validation pass and the reported accuracy and early stopping suffer.
"""Trainer with callbacks for a classifier whose stem stays frozen."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(121)


class FrozenStemNet(nn.Module):
    def __init__(self, features=32, classes=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(features, 96), nn.LayerNorm(96), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Dropout(0.5),
                                  nn.Linear(96, classes))
        self.stem.requires_grad_(False)

    def train(self, mode=True):
        super().train()
        self.stem.eval()
        return self

    def forward(self, x):
        return self.head(self.stem(x))


class Callback:
    def on_epoch_end(self, trainer, logs):
        pass


class History(Callback):
    def on_epoch_end(self, trainer, logs):
        print(f"epoch {trainer.epoch} " + " ".join(f"{k} {v:.3f}" for k, v in logs.items()))


class EarlyStopping(Callback):
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, 0.0, 0

    def on_epoch_end(self, trainer, logs):
        if logs["valid_acc"] > self.best:
            self.best, self.bad = logs["valid_acc"], 0
        else:
            self.bad += 1
        trainer.stop = self.bad >= self.patience


class Trainer:
    def __init__(self, model, lr, callbacks):
        self.model, self.callbacks = model, callbacks
        self.opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
        self.stop, self.epoch = False, 0

    def validate(self, loader):
        self.model.eval()
        loss = hits = count = 0
        with torch.inference_mode():
            for x, y in loader:
                logits = self.model(x)
                loss += F.cross_entropy(logits, y, reduction="sum").item()
                hits += (logits.argmax(1) == y).sum().item()
                count += len(y)
        return {"valid_loss": loss / count, "valid_acc": hits / count}

    def fit(self, train, valid, epochs):
        for self.epoch in range(epochs):
            self.model.train()
            total = 0.0
            for x, y in train:
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item()
            logs = {"train_loss": total / len(train), **self.validate(valid)}
            for cb in self.callbacks:
                cb.on_epoch_end(self, logs)
            if self.stop:
                break


def make_data(n, seed):
    g = torch.Generator().manual_seed(77)
    centres = 0.5 * torch.randn(8, 32, generator=g)
    g.manual_seed(seed)
    y = torch.randint(8, (n,), generator=g)
    return TensorDataset(centres[y] + torch.randn(n, 32, generator=g), y)


def main():
    train = DataLoader(make_data(2560, 1), batch_size=64, shuffle=True)
    valid = DataLoader(make_data(1024, 2), batch_size=256)
    Trainer(FrozenStemNet(), 1e-3, [History(), EarlyStopping(3)]).fit(train, valid, 8)


if __name__ == "__main__":
    main()
