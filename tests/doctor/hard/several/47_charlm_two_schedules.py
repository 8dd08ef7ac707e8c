# kind: several losses and optimizers
# expect: nothing
# like: schedule-wrong-unit
# why: Two schedules run at two paces: warm-up and decay of the body are planned in batches and stepped per
#      batch, the cosine of the embedding is planned in epochs and stepped per epoch.
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(101)

VOCAB, CONTEXT, EPOCHS, BATCH = 24, 32, 6, 32


def corpus(length):
    """A second-order Markov text."""
    g = torch.Generator().manual_seed(102)
    table = torch.softmax(3 * torch.randn(VOCAB, VOCAB, VOCAB, generator=g), -1).cumsum(-1)
    draws = torch.rand(length, generator=g).tolist()
    text = [0, 1]
    for u in draws:
        row = table[text[-2], text[-1]]
        text.append(min(int(torch.searchsorted(row, u)), VOCAB - 1))
    return torch.tensor(text[2:])


def windows(text):
    span = CONTEXT + 2
    return text[: len(text) // span * span].view(-1, span)


class CharLM(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, 96, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.next1 = nn.Linear(96, VOCAB)
        self.next2 = nn.Linear(96, VOCAB)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        h = self.drop(h)
        return self.next1(h), self.next2(h)


def losses(model, block):
    one, two = model(block[:, :CONTEXT])
    first = F.cross_entropy(one.flatten(0, 1), block[:, 1:CONTEXT + 1].flatten())
    second = F.cross_entropy(two.flatten(0, 1), block[:, 2:].flatten())
    return first, second


text = corpus(52000)
cut = 44000
train = DataLoader(TensorDataset(windows(text[:cut])), batch_size=BATCH, shuffle=True, drop_last=True)
valid = DataLoader(TensorDataset(windows(text[cut:])), batch_size=BATCH)

model = CharLM()
body = [p for n, p in model.named_parameters() if not n.startswith("embed")]
opt_body = torch.optim.AdamW(body, lr=5e-3, weight_decay=0.01)
opt_embed = torch.optim.Adam(model.embed.parameters(), lr=1e-2)

total_steps = EPOCHS * len(train)
warmup = total_steps // 10


def factor(step):
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total_steps - warmup)))


sched_body = LambdaLR(opt_body, factor)
sched_embed = CosineAnnealingLR(opt_embed, T_max=EPOCHS, eta_min=5e-4)

for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for (block,) in train:
        first, second = losses(model, block)
        opt_body.zero_grad()
        opt_embed.zero_grad()
        (first + 0.3 * second).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt_body.step()
        opt_embed.step()
        sched_body.step()
        running += first.item() / len(train)
    sched_embed.step()

    model.eval()
    nll = count = 0
    with torch.no_grad():
        for (block,) in valid:
            nll += losses(model, block)[0].item() * len(block)
            count += len(block)
    print(f"epoch {epoch}: next-char {running:.3f} valid {nll / count:.3f}"
          f" lr body {sched_body.get_last_lr()[0]:.1e} embedding {sched_embed.get_last_lr()[0]:.1e}")
