# kind: without a DataLoader
# expect: graph-kept
# why: The loss-aware sampler stores the loss tensors themselves in its per-regime history, so every update's graph
#      stays alive for the whole run.
import math

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


class Pendulum:
    """Damped pendulum under a random torque; regimes differ in length and friction."""

    def __init__(self, length, friction):
        self.length, self.friction = length, friction

    def rollout(self, n, steps, rng, dt=0.05):
        angle = rng.uniform(-2.5, 2.5, n)
        speed = rng.normal(0, 1.5, n)
        torque = rng.normal(0, 1.0, (n, 1)) * np.ones((1, steps))
        start = np.stack([np.sin(angle), np.cos(angle), speed], 1)
        for k in range(steps):
            acc = -9.8 / self.length * np.sin(angle) - self.friction * speed + torque[:, k]
            speed = speed + dt * acc
            angle = angle + dt * speed
        end = np.stack([np.sin(angle), np.cos(angle), speed], 1)
        return start, torque[:, :1], end


class LossAwareSampler:
    """Visits regimes in proportion to how badly they went lately."""

    def __init__(self, count, memory=12, floor=0.05):
        self.history = [[] for _ in range(count)]
        self.memory = memory
        self.floor = floor

    def report(self, regime, loss):
        self.history[regime].append(loss)

    def weights(self):
        w = np.ones(len(self.history))
        for k, h in enumerate(self.history):
            if h:
                recent = h[-self.memory:]
                w[k] = sum(v.item() for v in recent) / len(recent)
        w = w / w.sum() + self.floor
        return w / w.sum()

    def draw(self, rng):
        return int(rng.choice(len(self.history), p=self.weights()))


class Surrogate(nn.Module):
    def __init__(self, regimes, width=80):
        super().__init__()
        self.tag = nn.Embedding(regimes, 6)
        self.mlp = nn.Sequential(nn.Linear(3 + 1 + 6, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 3))

    def forward(self, state, torque, regime):
        tag = self.tag(regime)
        return state + self.mlp(torch.cat([state, torque, tag], dim=1))


class Experiment:
    def __init__(self, seed=21, batch=96, updates=500):
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.batch, self.updates = batch, updates
        self.worlds = [Pendulum(0.7, 0.1), Pendulum(1.0, 0.3), Pendulum(1.6, 0.0), Pendulum(3.0, 0.8)]
        self.scale = np.std(np.concatenate([w.rollout(500, 8, self.rng)[0] for w in self.worlds]), axis=0)
        self.sampler = LossAwareSampler(len(self.worlds))
        self.model = Surrogate(len(self.worlds))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.loss = nn.SmoothL1Loss()
        exam_rng = np.random.default_rng(seed + 1)
        self.exam = [self.pull(k, 300, exam_rng) for k in range(len(self.worlds))]

    def pull(self, k, n, rng):
        a, u, b = self.worlds[k].rollout(n, 8, rng)
        pack = lambda v: torch.from_numpy(v.astype(np.float32))
        return pack(a / self.scale), pack(u), torch.full((n,), k), pack(b / self.scale)

    def update(self):
        k = self.sampler.draw(self.rng)
        state, torque, tag, after = self.pull(k, self.batch, self.rng)
        self.model.train()
        self.opt.zero_grad()
        loss = self.loss(self.model(state, torque, tag), after)
        loss.backward()
        self.opt.step()
        self.sampler.report(k, loss)
        return k, loss.item()

    @torch.no_grad()
    def examine(self):
        self.model.eval()
        return [self.loss(self.model(s, u, t), b).item() for s, u, t, b in self.exam]

    def run(self):
        for i in range(1, self.updates + 1):
            k, value = self.update()
            if i % 50 == 0:
                marks = " ".join(f"{v:.4f}" for v in self.examine())
                probs = " ".join(f"{p:.2f}" for p in self.sampler.weights())
                print(f"{i:4d} regime {k} loss {value:.4f} | exam {marks} | weights {probs}")
                assert math.isfinite(value)


if __name__ == "__main__":
    Experiment().run()
