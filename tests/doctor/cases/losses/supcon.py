import torch
import torch.nn.functional as F
from torch import nn


def supcon(z, labels, temperature=0.2):
    labels = labels.view(-1, 1)
    mask = torch.eq(labels, labels.t()).float()
    logits = z @ z.t() / temperature
    eye = torch.eye(len(z))
    logits = logits - 1e9 * eye
    log_prob = logits - torch.logsumexp(logits, dim=1, keepdim=True)
    positives = mask - eye
    return -((positives * log_prob).sum(1) / positives.sum(1).clamp(min=1)).mean()


def cross_view(a, b, ya, yb):
    same = (ya.view(-1, 1) == yb).float()
    return F.binary_cross_entropy_with_logits(5 * a @ b.t(), same)


torch.manual_seed(26)
encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
centres = torch.randn(4, 8)
for step in range(40):
    ya, yb = torch.randint(0, 4, (24,)), torch.randint(0, 4, (24,))
    a = F.normalize(encoder(centres[ya] + 0.3 * torch.randn(24, 8)), dim=1)
    b = F.normalize(encoder(centres[yb] + 0.3 * torch.randn(24, 8)), dim=1)
    loss = supcon(a, ya) + cross_view(a, b, ya, yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
