import torch
import torch.nn.functional as F
from torch import nn


class Melody(nn.Module):
    def __init__(self, notes=16, dim=24):
        super().__init__()
        self.notes = nn.Embedding(notes, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, notes)

    def forward(self, x):
        return self.head(self.rnn(self.notes(x))[0])


def tunes(n, length=12):
    start = torch.randint(1, 16, (n, 1))
    seq = (start + 3 * torch.arange(length + 1)) % 15 + 1
    lengths = torch.randint(4, length + 1, (n,))
    mask = torch.arange(length) < lengths[:, None]
    return seq[:, :-1] * mask, seq[:, 1:] * mask, mask


def masked_loss(logits, target, mask):
    each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return (each * mask).sum() / mask.sum()


torch.manual_seed(13)
model = Melody()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
for step in range(45):
    x, y, mask = tunes(24)
    loss = masked_loss(model(x), y, mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 15 == 0:
        print(f"step {step} loss {loss.item():.4f}")
