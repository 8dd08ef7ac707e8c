"""Strength of small frames from their joints: attention over the joints, frames of different sizes in one batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
torch.set_num_threads(1)


def make_frame():
    joints = torch.randn(int(torch.randint(4, 10, ())), 5)
    return joints, joints[:, 0].max() + 0.3 * joints[:, 1].mean()


def collate(frames):
    sizes = torch.tensor([len(joints) for joints, _ in frames])
    owner = torch.arange(len(frames)).repeat_interleave(sizes)
    return torch.cat([joints for joints, _ in frames]), owner, torch.stack([strength for _, strength in frames])


class Frames(nn.Module):
    def __init__(self):
        super().__init__()
        self.joint = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 24))
        self.score = nn.Linear(24, 1)
        self.head = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, joints, owner):
        h = self.joint(joints)
        scores = self.score(h)
        weights = (scores - scores.max()).exp()  # the same for all frames: it cancels out
        sums = h.new_zeros(int(owner[-1]) + 1, 1).index_add(0, owner, weights)
        weights = weights / sums[owner]
        pooled = h.new_zeros(int(owner[-1]) + 1, 24).index_add(0, owner, weights * h)
        return self.head(pooled).squeeze(1)


frames = [make_frame() for _ in range(640)]
train = DataLoader(frames[:512], batch_size=32, shuffle=True, collate_fn=collate)
valid = DataLoader(frames[512:], batch_size=32, collate_fn=collate)
model = Frames()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(6):
    model.train()
    for joints, owner, strength in train:
        loss = nn.functional.mse_loss(model(joints, owner), strength)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        errors = [(model(joints, owner) - strength).abs() for joints, owner, strength in valid]
    print(epoch, torch.cat(errors).mean().item())
