# kind: without a DataLoader
# expect: same-batch-every-step
# why: The scene stream seeds itself in __iter__, and every update asks for next(iter(stream)), so it always gets the
#      first batch of the same stream.
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


@dataclass
class SceneStream:
    """Endless batches of grey pictures with one shape each, with its box and its kind."""
    seed: int
    batch: int = 48
    side: int = 20
    kinds: tuple = ("full", "hollow", "cross")
    grid: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        self.grid = np.mgrid[0:self.side, 0:self.side]

    def draw(self, rng):
        w, h = rng.integers(5, 11, 2)
        x, y = rng.integers(0, self.side - w + 1), rng.integers(0, self.side - h + 1)
        kind = rng.integers(len(self.kinds))
        rows, cols = self.grid
        inside = (cols >= x) & (cols < x + w) & (rows >= y) & (rows < y + h)
        if kind == 1:
            inside &= ~((cols > x) & (cols < x + w - 1) & (rows > y) & (rows < y + h - 1))
        elif kind == 2:
            inside &= (cols == x + w // 2) | (rows == y + h // 2)
        picture = inside * rng.uniform(0.8, 1.5) + rng.normal(0, 0.2, inside.shape)
        box = np.array([x + w / 2, y + h / 2, w, h]) / self.side
        return picture, box, kind

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        while True:
            pictures, boxes, kinds = zip(*(self.draw(rng) for _ in range(self.batch)))
            pictures = (np.stack(pictures) - 0.2) / 0.45
            yield (torch.tensor(pictures, dtype=torch.float32)[:, None],
                   torch.tensor(np.stack(boxes), dtype=torch.float32),
                   torch.tensor(np.array(kinds)))


class Finder(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(24 * 25, 64), nn.ReLU())
        self.box = nn.Linear(64, 4)
        self.kind = nn.Linear(64, kinds)

    def forward(self, x):
        h = self.trunk(x)
        return self.box(h).sigmoid(), self.kind(h)


class Trainer:
    def __init__(self, model, stream, exam, lr):
        self.model, self.stream, self.exam = model, stream, exam
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def loss(self, scene):
        x, box, kind = scene
        guess, logits = self.model(x)
        return F.smooth_l1_loss(guess, box, beta=0.05) + 0.5 * F.cross_entropy(logits, kind), logits

    def update(self):
        self.model.train()
        scene = next(iter(self.stream))
        self.opt.zero_grad()
        loss, _ = self.loss(scene)
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def check(self):
        self.model.eval()
        losses, hits = [], []
        for scene in self.exam:
            loss, logits = self.loss(scene)
            losses.append(loss.item())
            hits.append((logits.argmax(1) == scene[2]).float().mean().item())
        return float(np.mean(losses)), float(np.mean(hits))


def main(updates=300, report=30):
    torch.manual_seed(0)
    stream = SceneStream(seed=100)
    exam = [scene for scene, _ in zip(SceneStream(seed=999), range(5))]
    trainer = Trainer(Finder(len(stream.kinds)), stream, exam, lr=1.5e-3)
    window = []
    for i in range(1, updates + 1):
        window.append(trainer.update())
        if i % report == 0:
            v, acc = trainer.check()
            print(f"{i:4d} train {np.mean(window):.4f} exam {v:.4f} kind acc {acc:.3f}")
            window.clear()


if __name__ == "__main__":
    main()
