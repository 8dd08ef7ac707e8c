# kind: classes and callbacks
# expect: best-weights-aliased
# why: KeepBest stores v.detach().cpu() of the state dict; on the CPU neither call copies, so the stored tensors are the live weights and restoring the "best" at the end loads the last, overfitted weights onto themselves.
"""Trainer with callbacks: history, best-weights keeper on validation loss, restore at the end of training."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(27)


class Callback:
    def on_epoch_end(self, trainer, logs): ...
    def on_fit_end(self, trainer): ...


class Printer(Callback):
    def __init__(self, every):
        self.every = every

    def on_epoch_end(self, trainer, logs):
        if trainer.epoch % self.every == 0:
            print(f"epoch {trainer.epoch:2d} " + " ".join(f"{k} {v:.3f}" for k, v in logs.items()))


class KeepBest(Callback):
    def __init__(self, monitor):
        self.monitor, self.best, self.weights, self.epoch = monitor, float("inf"), None, None

    def on_epoch_end(self, trainer, logs):
        if logs[self.monitor] < self.best:
            self.best, self.epoch = logs[self.monitor], trainer.epoch
            self.weights = {k: v.detach().cpu() for k, v in trainer.model.state_dict().items()}

    def on_fit_end(self, trainer):
        trainer.model.load_state_dict(self.weights)
        print(f"restored epoch {self.epoch} ({self.monitor} {self.best:.3f})")


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks, self.epoch = model, optimizer, callbacks, 0

    def _emit(self, event, *args):
        for c in self.callbacks:
            getattr(c, event)(self, *args)

    def _train_epoch(self, loader):
        self.model.train()
        total, n = 0.0, 0
        for x, y in loader:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, n = total + loss.item() * len(x), n + len(x)
        return total / n

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        loss, hit, n = 0.0, 0, 0
        for x, y in loader:
            out = self.model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hit, n = hit + (out.argmax(1) == y).sum().item(), n + len(x)
        return loss / n, hit / n

    def fit(self, train, valid, epochs):
        for self.epoch in range(1, epochs + 1):
            logs = {"loss": self._train_epoch(train)}
            logs["val_loss"], logs["val_acc"] = self.evaluate(valid)
            self._emit("on_epoch_end", logs)
        self._emit("on_fit_end")


def make_set(n, w):
    x = torch.randn(n, 25)
    return TensorDataset(x, (x @ w + 1.5 * torch.randn(n, 4)).argmax(1))


def main():
    w = torch.randn(25, 4)
    train = DataLoader(make_set(480, w), batch_size=32, shuffle=True)
    valid, test = (DataLoader(make_set(600, w), batch_size=200) for _ in range(2))
    model = nn.Sequential(nn.Linear(25, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 4))
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), lr=2e-3), [Printer(5), KeepBest("val_loss")])
    trainer.fit(train, valid, epochs=25)
    loss, acc = trainer.evaluate(test)
    print(f"test loss {loss:.3f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
