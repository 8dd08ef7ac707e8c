# kind: classes and callbacks
# expect: no-seed
# why: SeedEverything seeds random, numpy and the CUDA generators only; on the CPU torch's own generator is never seeded, so weights, dropout and shuffling differ in every run and between the two variants that are said to be compared under one seed.
"""Ablation: does the skip connection help? Same seed for both variants, small trainer with callbacks."""
import os
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Callback:
    def setup(self, trainer): ...
    def epoch_end(self, trainer): ...
    def teardown(self, trainer): ...


class SeedEverything(Callback):
    def __init__(self, seed):
        self.seed = seed

    def setup(self, trainer):
        os.environ["PYTHONHASHSEED"] = str(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed)
        torch.cuda.manual_seed(self.seed)
        torch.cuda.manual_seed_all(self.seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


class History(Callback):
    def __init__(self):
        self.rows = []

    def epoch_end(self, trainer):
        self.rows.append(trainer.validate())

    def teardown(self, trainer):
        print(f"{trainer.name}: " + " ".join(f"{v:.4f}" for v in self.rows))


class Net(nn.Module):
    def __init__(self, skip):
        super().__init__()
        self.skip = skip
        self.inp, self.mid, self.out = nn.Linear(15, 24), nn.Linear(24, 24), nn.Linear(24, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        z = self.drop(torch.relu(self.mid(h)))
        return self.out(h + z if self.skip else z)


class Trainer:
    def __init__(self, name, build, callbacks, epochs=10):
        self.name, self.build, self.callbacks, self.epochs = name, build, callbacks, epochs

    def _call(self, hook):
        for cb in self.callbacks:
            getattr(cb, hook)(self)

    def make_data(self):
        means = np.random.randn(3, 15) * 0.35
        y = np.random.randint(0, 3, 1500)
        x = (means[y] + np.random.randn(1500, 15)).astype(np.float32)
        full = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        self.train_loader = DataLoader(torch.utils.data.Subset(full, range(900)), 45, shuffle=True)
        self.valid_loader = DataLoader(torch.utils.data.Subset(full, range(900, 1500)), 300)

    def fit(self):
        self._call("setup")
        self.make_data()
        self.model = self.build()
        opt = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        for _ in range(self.epochs):
            self.model.train()
            for x, y in self.train_loader:
                opt.zero_grad()
                nn.functional.cross_entropy(self.model(x), y).backward()
                opt.step()
            self._call("epoch_end")
        self._call("teardown")
        return self.validate()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.valid_loader)
        return hits / len(self.valid_loader.dataset)


def main():
    scores = {}
    for skip in (False, True):
        trainer = Trainer(f"skip={skip}", lambda: Net(skip), [SeedEverything(1234), History()])
        scores[skip] = trainer.fit()
    print(f"gain of the skip connection: {scores[True] - scores[False]:+.4f}")


if __name__ == "__main__":
    main()
