# kind: in a second phase
# expect: stale-optimizer
# also: parameter-not-optimized
# why: adapt() puts a fresh head into the network after pretraining, but the optimizer built before it is only re-tuned (new learning rates per group); its head group still holds the old head, so the new head keeps its random weights.
"""Pretrain a small CNN on texture orientation, then transfer it to defect types."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(11)


def gratings(n, gen, n_angles=4, size=16):
    angle = torch.randint(0, n_angles, (n,), generator=gen)
    theta = angle.float() * math.pi / n_angles
    phase = torch.rand(n, generator=gen) * 2 * math.pi
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    wave = torch.cos(theta)[:, None, None] * xx + torch.sin(theta)[:, None, None] * yy
    img = torch.sin(0.9 * wave + phase[:, None, None])
    img = img + 0.6 * torch.randn(n, size, size, generator=gen)
    return img.unsqueeze(1), angle


def defects(n, gen, n_types=8, size=16):
    """Orientation and frequency together make the defect type."""
    kind = torch.randint(0, n_types, (n,), generator=gen)
    theta = (kind % 4).float() * math.pi / 4 + math.pi / 8
    freq = 0.6 + 0.5 * (kind // 4).float()
    phase = torch.rand(n, generator=gen) * 2 * math.pi
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    wave = torch.cos(theta)[:, None, None] * xx + torch.sin(theta)[:, None, None] * yy
    img = torch.sin(freq[:, None, None] * wave + phase[:, None, None])
    img = img + 0.8 * torch.randn(n, size, size, generator=gen)
    return img.unsqueeze(1), kind


class TextureNet(nn.Module):
    def __init__(self, n_out, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, n_out)

    def adapt(self, n_out):
        self.head = nn.Linear(self.head.in_features, n_out)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        return self

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Experiment:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.AdamW(
            [{"params": model.body.parameters()}, {"params": model.head.parameters()}],
            lr=lr, weight_decay=1e-4)

    def set_rates(self, body, head):
        for group, lr in zip(self.optimizer.param_groups, (body, head)):
            group["lr"] = lr

    def fit(self, source, steps, batch, gen, tag):
        self.model.train()
        for step in range(1, steps + 1):
            x, y = source(batch, gen)
            loss = F.cross_entropy(self.model(x), y)
            self.model.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 65 == 0:
                print(f"{tag} step {step:4d} loss {loss.item():.3f}")

    @torch.no_grad()
    def accuracy(self, source, gen, n=1000):
        self.model.eval()
        x, y = source(n, gen)
        return (self.model(x).argmax(1) == y).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(1)
    held_out = torch.Generator().manual_seed(99)
    exp = Experiment(TextureNet(4), lr=2e-3)
    exp.fit(gratings, 260, 48, gen, "pretrain")
    print(f"orientation accuracy {exp.accuracy(gratings, held_out):.3f}")

    exp.model.adapt(8)
    exp.set_rates(body=2e-4, head=5e-3)
    exp.fit(defects, 195, 48, gen, "transfer")
    print(f"defect accuracy {exp.accuracy(defects, held_out):.3f}")


if __name__ == "__main__":
    main()
