# kind: in a second phase
# expect: nothing
# like: schedule-wrong-unit
# why: OneCycleLR is planned in batches (epochs * len(loader)) and stepped per batch; the job is interrupted, and the
#   second run makes everything anew and loads model, optimizer, schedule and the random state of the shuffling.
import os
import shutil
import tempfile

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


def houses(n, rng):
    x = rng.normal(size=(n, 10))
    x[:, 3] = (x[:, 3] > 0.5)
    price = 1.5 * x[:, 0] + np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3] + 0.5 * np.abs(x[:, 4]) + 0.2 * rng.normal(size=n)
    return x.astype("float32"), price.astype("float32")


class Job:
    epochs = 12
    max_lr = 8e-3

    def __init__(self, folder):
        self.file = os.path.join(folder, "last.pt")
        rng = np.random.default_rng(88)
        x, y = houses(2500, rng)
        xt, yt, xv, yv = x[:2000], y[:2000], x[2000:], y[2000:]
        mx, sx, my, sy = xt.mean(0), xt.std(0), yt.mean(), yt.std()
        t = torch.from_numpy
        self.order = torch.Generator().manual_seed(88)
        self.train = DataLoader(TensorDataset(t((xt - mx) / sx), t((yt - my) / sy)), batch_size=64, shuffle=True,
                                drop_last=True, generator=self.order)
        self.valid = t((xv - mx) / sx), t((yv - my) / sy)

        torch.manual_seed(88)
        self.net = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64),
                                 nn.ReLU(), nn.Linear(64, 1))
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=self.max_lr / 25, weight_decay=1e-3)
        self.sched = OneCycleLR(self.opt, max_lr=self.max_lr, total_steps=self.epochs * len(self.train))
        self.done = 0
        if os.path.exists(self.file):
            self.resume()

    def resume(self):
        state = torch.load(self.file, weights_only=True)
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
        self.sched.load_state_dict(state["sched"])
        self.order.set_state(state["order"])
        self.done = state["done"]
        print(f"resumed after epoch {self.done - 1}, lr {self.sched.get_last_lr()[0]:.2e}")

    def save(self):
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                    "order": self.order.get_state(), "done": self.done}, self.file + ".tmp")
        os.replace(self.file + ".tmp", self.file)

    def validate(self):
        self.net.eval()
        with torch.no_grad():
            x, y = self.valid
            return nn.functional.mse_loss(self.net(x).squeeze(1), y).item()

    def run(self, stop_after=None):
        while self.done < self.epochs:
            self.net.train()
            total = 0.0
            for x, y in self.train:
                self.opt.zero_grad()
                loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
                loss.backward()
                self.opt.step()
                self.sched.step()
                total += loss.item()
            self.done += 1
            self.save()
            print(f"epoch {self.done - 1:2d}  train {total / len(self.train):.4f}  valid {self.validate():.4f}  "
                  f"lr {self.sched.get_last_lr()[0]:.2e}")
            if self.done == stop_after:
                return


torch.set_num_threads(1)
where = tempfile.mkdtemp()
try:
    Job(where).run(stop_after=7)      # the queue's time limit
    Job(where).run()
finally:
    shutil.rmtree(where)
