import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size, block_size, max_iters, learning_rate = 16, 8, 60, 1e-2
torch.manual_seed(1337)
data = (torch.cumsum(torch.randint(0, 3, (2000,)), 0) * 5) % 17


def get_batch():
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    return torch.stack([data[i : i + block_size] for i in ix]), torch.stack([data[i + 1 : i + block_size + 1] for i in ix])


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 17)

    def forward(self, idx, targets=None):
        logits = self.table(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, 17), targets.view(-1))


model = Bigram()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=max_iters, pct_start=0.1)
for it in range(max_iters):
    xb, yb = get_batch()
    _, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
print(loss.item())
