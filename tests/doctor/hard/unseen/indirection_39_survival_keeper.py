# kind: behind indirection
# expect: nothing
# like: best-weights-aliased
# why: A callback keeps the best weights as a dictionary while training goes on, but each entry is cloned when it is
#      kept, so restoring it at the end brings back the best epoch.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Callback:
    registry = {}

    def __init_subclass__(cls, /, name, **kw):
        super().__init_subclass__(**kw)
        Callback.registry[name] = cls

    def epoch_done(self, run): ...
    def finished(self, run): ...


class Keeper(Callback, name="keeper"):
    def __init__(self):
        self.score, self.kept = -1.0, None

    def epoch_done(self, run):
        if run.logs["cindex"] > self.score:
            self.score = run.logs["cindex"]
            self.kept = {k: v.detach().clone() for k, v in run.net.state_dict(keep_vars=True).items()}

    def finished(self, run):
        run.net.load_state_dict(self.kept)


class Printer(Callback, name="printer"):
    def epoch_done(self, run):
        print(" ".join(f"{k}={v:.4f}" for k, v in run.logs.items()))


def cohort(n, g):
    x = torch.randn(n, 8, generator=g)
    risk = 0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3]
    t = torch.empty(n).exponential_(1.0, generator=g) * torch.exp(-risk)
    c = torch.empty(n).exponential_(0.4, generator=g)
    return x, torch.minimum(t, c), (t <= c).float()


def neg_partial_likelihood(score, time, event):
    order = time.argsort(descending=True)
    s, e = score[order], event[order]
    return -((s - torch.logcumsumexp(s, 0)) * e).sum() / e.sum().clamp(min=1)


def concordance(score, time, event):
    earlier = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    right = (score[:, None] > score[None, :]) & earlier
    return (right.sum() / earlier.sum()).item()


class Risk(nn.Sequential):
    def __init__(self, d):
        super().__init__(nn.Linear(d, 48), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(48, 24), nn.SELU(), nn.Linear(24, 1, bias=False))

    def forward(self, x):
        return super().forward(x).squeeze(-1)


class Run:
    def __init__(self, net, opt, train, valid, *names):
        self.net, self.opt, self.train, self.valid, self.logs = net, opt, train, valid, {}
        self.callbacks = [Callback.registry[n]() for n in names]

    def tell(self, what):
        for cb in self.callbacks:
            getattr(cb, what)(self)

    def score(self):
        self.net.eval()
        x, t, e = self.valid
        with torch.no_grad():
            return concordance(self.net(x), t, e)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.net.train()
            total = n = 0
            for x, t, e in self.train:
                self.opt.zero_grad()
                loss = neg_partial_likelihood(self.net(x), t, e)
                loss.backward()
                self.opt.step()
                total, n = total + loss.item(), n + 1
            self.logs = {"epoch": epoch, "loss": total / n, "cindex": self.score()}
            self.tell("epoch_done")
        self.tell("finished")
        print(f"restored c-index {self.score():.4f}")


torch.manual_seed(14)
gen = torch.Generator().manual_seed(15)
x, t, e = cohort(2300, gen)
mean, std = x[:1920].mean(0), x[:1920].std(0)
x = (x - mean) / std
loader = DataLoader(TensorDataset(x[:1920], t[:1920], e[:1920]), batch_size=128, shuffle=True, drop_last=True)
net = Risk(8)
Run(
    net,
    torch.optim.Adamax(net.parameters(), lr=4e-3),
    loader,
    (x[1920:], t[1920:], e[1920:]),
    "keeper", "printer",
).fit(16)
