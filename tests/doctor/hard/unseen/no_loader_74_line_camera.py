# kind: without a DataLoader
# expect: batchnorm-of-one
# why: frames come one at a time from the camera generator and are fed singly to a convolutional net with BatchNorm in train mode; each frame is normalised by its own statistics, so level and contrast, which decide the class, are gone in training and the running statistics do not fit at evaluation.
"""Line camera, paint thickness classes. Memory on the edge box only allows one frame in flight."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(40)
GRADES = 4


def camera(seed):
    """Endless frames; the grade shows in level and grain of the coating."""
    g = torch.Generator().manual_seed(seed)
    while True:
        grade = int(torch.randint(0, GRADES, (1,), generator=g))
        level = 0.35 * (grade % 2) + 0.1 * torch.randn((), generator=g)
        grain = 0.35 + 0.3 * (grade // 2) + 0.05 * torch.randn((), generator=g)
        frame = level + grain * torch.randn(1, 14, 14, generator=g)
        yield frame, grade


class Inspector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.grade = nn.Linear(16, GRADES)

    def forward(self, x):
        return self.grade(self.features(x).flatten(1))


class Accumulator:
    def __init__(self, model, lr, every):
        self.model, self.every = model, every
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.pending, self.window = 0, 0.0
        self.steps = 0

    def feed(self, frame, grade):
        logits = self.model(frame.unsqueeze(0))
        loss = F.cross_entropy(logits, torch.tensor([grade])) / self.every
        loss.backward()
        self.window += loss.item()
        self.pending += 1
        if self.pending == self.every:
            return self.flush()
        return None

    def flush(self):
        self.opt.step()
        self.opt.zero_grad()
        out, self.pending, self.window = self.window, 0, 0.0
        self.steps += 1
        return out


@torch.no_grad()
def inspect(model, frames):
    model.eval()
    x = torch.stack([f for f, _ in frames])
    y = torch.tensor([g for _, g in frames])
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def main():
    held_out_camera = camera(seed=9)
    held_out = [next(held_out_camera) for _ in range(500)]
    model = Inspector().train()
    trainer = Accumulator(model, lr=0.05, every=16)
    for frame, grade in camera(seed=1):
        loss = trainer.feed(frame, grade)
        if loss is not None and trainer.steps % 30 == 0:
            print(f"step {trainer.steps} loss {loss:.4f} held-out accuracy {inspect(model, held_out):.3f}")
        if trainer.steps == 120:
            break


main()
