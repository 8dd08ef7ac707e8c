# kind: indirection
# expect: nothing
# why: might be accused of leaf-written-in-place, layer-shared-by-accident and loss-broadcast; the slow weights of the optimizer are written back by its own step and swapped in for evaluation, both zone columns use one embedding because they mean the same places, and the output is squeezed to the shape of the target.
"""Trip duration from a table, trained with a hand-written lookahead optimizer and callbacks."""
import contextlib
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("trips")
ZONES = 30


class LookaheadAdam(torch.optim.Optimizer):
    """Adam whose weights are pulled towards slow weights every few steps."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, every=5, alpha=0.5):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, every=every, alpha=alpha))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)

    def _update(self, p, group):
        state, (b1, b2) = self.state[p], group["betas"]
        if not state:
            state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p), slow=p.detach().clone())
        state["step"] += 1
        state["m"].lerp_(p.grad, 1 - b1)
        state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
        m = state["m"] / (1 - b1 ** state["step"])
        v = state["v"] / (1 - b2 ** state["step"])
        p.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-group["lr"])
        if state["step"] % group["every"] == 0:
            state["slow"].lerp_(p, group["alpha"])
            p.copy_(state["slow"])

    @torch.no_grad()
    def _write(self, values):
        for p, value in values.items():
            p.copy_(value)

    @contextlib.contextmanager
    def slow_weights(self):
        fast = {p: p.detach().clone() for p in self.state}
        self._write({p: self.state[p]["slow"] for p in fast})
        try:
            yield
        finally:
            self._write(fast)


class TripModel(nn.Module):
    def __init__(self):
        super().__init__()
        zone = nn.Embedding(ZONES, 8)
        self.origin, self.destination = zone, zone
        self.body = nn.Sequential(nn.Linear(19, 64), nn.LayerNorm(64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, zones, numbers):
        row = torch.cat([self.origin(zones[:, 0]), self.destination(zones[:, 1]), numbers], dim=1)
        return self.body(row).squeeze(-1)


def trips(n, places, gen):
    zones = torch.randint(0, ZONES, (n, 2), generator=gen)
    hour = 24 * torch.rand(n, generator=gen)
    rain = torch.rand(n, generator=gen)
    distance = (places[zones[:, 0]] - places[zones[:, 1]]).norm(dim=1)
    rush = torch.exp(-((hour - 8) ** 2) / 4) + torch.exp(-((hour - 17) ** 2) / 6)
    minutes = (5 + 12 * distance) * (1 + 0.6 * rush + 0.3 * rain) * torch.exp(0.1 * torch.randn(n, generator=gen))
    angle = 2 * torch.pi * hour / 24
    return zones, torch.stack([angle.sin(), angle.cos(), rain], dim=1), minutes.log()


class KeepBest:
    # Called while the slow weights are in place, so these are cloned.
    best, state = float("inf"), None

    def epoch_ended(self, trainer, valid):
        if valid < self.best:
            self.best, self.state = valid, {k: v.clone() for k, v in trainer.model.state_dict().items()}


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.loss_fn, self.epoch, self.train_loss = nn.HuberLoss(delta=0.5), 0, 0.0

    def fit(self, train_loader, valid_loader, epochs):
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=epochs)
        for self.epoch in range(epochs):
            self.train_loss = self.train_epoch(train_loader)
            schedule.step()
            with self.optimizer.slow_weights():
                valid = self.rmse(valid_loader)
                log.info("epoch %d train %.4f valid %.4f", self.epoch, self.train_loss, valid)
                for callback in self.callbacks:
                    callback.epoch_ended(self, valid)

    def train_epoch(self, loader):
        self.model.train()
        total, count = 0.0, 0
        for zones, numbers, target in loader:
            loss = self.loss_fn(self.model(zones, numbers), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, count = total + loss.item() * len(target), count + len(target)
        return total / count

    @torch.no_grad()
    def rmse(self, loader):
        self.model.eval()
        squares = count = 0
        for zones, numbers, target in loader:
            squares += (self.model(zones, numbers) - target).square().sum().item()
            count += len(target)
        return (squares / count) ** 0.5


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(12)
    places = torch.randn(ZONES, 2, generator=gen)
    train, valid, test = (trips(n, places, gen) for n in (6000, 1000, 1000))
    centre, spread = train[2].mean(), train[2].std()
    sets = [TensorDataset(z, x, (t - centre) / spread) for z, x, t in (train, valid, test)]
    keep, model = KeepBest(), TripModel()
    trainer = Trainer(model, LookaheadAdam(model.parameters(), lr=1e-2), [keep])
    trainer.fit(DataLoader(sets[0], batch_size=64, shuffle=True), DataLoader(sets[1], batch_size=300), epochs=12)
    model.load_state_dict(keep.state)
    log.info("test rmse in log minutes %.4f", trainer.rmse(DataLoader(sets[2], batch_size=300)) * spread.item())
