# kind: second_phase
# expect: nothing
# why: Might be accused of batch-mixed, trained-in-eval-mode, frozen-batchnorm-moves or softmax-wrong-dim: the contrastive loss compares samples of the batch on purpose, and the probe trains while the frozen encoder stays in eval mode under no_grad.
"""SimCLR on unlabelled vibration signals, then a linear probe on a small labelled set."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH, CLASSES = 64, 4


def signals(n, gen):
    label = torch.randint(CLASSES, (n,), generator=gen)
    t = torch.arange(LENGTH) / LENGTH
    phase = torch.rand(n, 1, generator=gen)
    freq = torch.tensor([3.0, 3.0, 5.0, 5.0])[label].unsqueeze(1)
    wave = torch.sin(2 * math.pi * (freq * t + phase))
    wave = torch.where((label % 2 == 1).unsqueeze(1), wave.sign() * wave.abs().sqrt(), wave)
    wave = wave + 0.6 * torch.sin(2 * math.pi * (t * 9 + torch.rand(n, 1, generator=gen)))
    return (wave + 0.2 * torch.randn(n, LENGTH, generator=gen)).unsqueeze(1), label


def augment(x):
    shift = torch.randint(LENGTH, (len(x), 1))
    index = (torch.arange(LENGTH) + shift) % LENGTH
    x = x.squeeze(1).gather(1, index).unsqueeze(1)
    x = x * (0.7 + 0.6 * torch.rand(len(x), 1, 1))
    return x + 0.15 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        blocks, channels = [], 1
        for out in (width // 2, width, 2 * width):
            blocks += [nn.Conv1d(channels, out, 5, stride=2, padding=2, bias=False), nn.BatchNorm1d(out), nn.ReLU()]
            channels = out
        self.body, self.dim = nn.Sequential(*blocks), channels

    def forward(self, x):
        return self.body(x).mean(dim=-1)


def nt_xent(a, b, temperature=0.2):
    """Every view has its partner as the one right answer among all other views of the batch."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(similarity, partner)


def pretrain(encoder, loader, epochs):
    projector = nn.Sequential(nn.Linear(encoder.dim, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    both = nn.ModuleList([encoder, projector]).train()
    optimizer = torch.optim.Adam(both.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        total, count = 0.0, 0
        for (x,) in loader:
            views = projector(encoder(torch.cat([augment(x), augment(x)])))
            loss = nt_xent(*views.chunk(2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(x), count + len(x)
        schedule.step()
        if epoch % 3 == 2:
            print(f"pretraining epoch {epoch + 1}  loss {total / count:.4f}")


@torch.no_grad()
def accuracy(encoder, head, loader):
    encoder.eval()
    head.eval()
    right = count = 0
    for x, y in loader:
        right += (head(encoder(x)).argmax(1) == y).sum().item()
        count += len(y)
    return right / count


def probe(encoder, train, valid, epochs):
    encoder.eval().requires_grad_(False)
    head = nn.Sequential(nn.BatchNorm1d(encoder.dim, affine=False), nn.Linear(encoder.dim, CLASSES))
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8, gamma=0.3)
    for epoch in range(epochs):
        head.train()
        for x, y in train:
            with torch.no_grad():
                features = encoder(x)
            loss = F.cross_entropy(head(features), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if epoch % 8 == 7:
            print(f"probe epoch {epoch + 1}  loss {loss.item():.4f}  valid {accuracy(encoder, head, valid):.3f}")
    return head


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(100)
    unlabelled, _ = signals(2048, gen)
    labelled, valid, test = (TensorDataset(*signals(n, gen)) for n in (256, 300, 600))
    encoder = Encoder()
    pretrain(encoder, DataLoader(TensorDataset(unlabelled), 128, shuffle=True, drop_last=True), epochs=15)
    head = probe(encoder, DataLoader(labelled, 32, shuffle=True), DataLoader(valid, 100), epochs=24)
    print(f"test accuracy {accuracy(encoder, head, DataLoader(test, 200)):.3f}")


if __name__ == "__main__":
    main()
