import torch
import torch.nn as nn
from torch.nn import functional as F

eval_interval, eval_iters, max_iters = 15, 4, 60
torch.manual_seed(7)
data = (torch.arange(3000) * 7 + (torch.arange(3000) // 5) * 3) % 23
splits = {"train": data[:2500], "val": data[2500:]}


def get_batch(split):
    d = splits[split]
    ix = torch.randint(len(d) - 9, (16,))
    return torch.stack([d[i : i + 8] for i in ix]), torch.stack([d[i + 1 : i + 9] for i in ix])


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(23, 24)
        self.drop = nn.Dropout(0.2)
        self.rnn = nn.GRU(24, 24, batch_first=True)
        self.head = nn.Linear(24, 23)

    def forward(self, idx, targets):
        h, _ = self.rnn(self.drop(self.tok(idx)))
        logits = self.head(h)
        return logits, F.cross_entropy(logits.view(-1, 23), targets.view(-1))


@torch.no_grad()
def estimate_loss(model):
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            _, loss = model(*get_batch(split))
            losses[k] = loss.item()
        out[split] = losses.mean()
    return out


model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for it in range(max_iters):
    if it and it % eval_interval == 0:
        losses = estimate_loss(model)
        print(f"step {it}: train {losses['train']:.3f}, val {losses['val']:.3f}")
    _, loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
