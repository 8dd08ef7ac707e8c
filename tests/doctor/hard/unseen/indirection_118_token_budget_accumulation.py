# kind: indirection
# expect: nothing
# why: Might be accused of accumulation-not-divided, accumulation-tail, loss-summed or clip-of-partial-cycle: summed losses are divided by the tokens of the whole cycle, the short last cycle steps too with its own count, and clipping comes once per cycle.
"""Causal transformer that sorts digits: uneven micro-batches, checkpointed blocks, warmup and cosine."""
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

DIGITS, SEP, END, PAD, IGNORE, LONGEST = 10, 10, 11, 12, -100, 14


def problem(rng):
    digits = [rng.randrange(DIGITS) for _ in range(rng.randint(2, 6))]
    tokens = digits + [SEP] + sorted(digits) + [END]
    inputs, targets = tokens[:-1], tokens[1:]
    targets = [IGNORE] * len(digits) + targets[len(digits) :]  # only the answer is learned
    return inputs, targets


def micro_batches(data, budget, rng):
    """Shuffled problems cut into pieces of at most `budget` padded tokens."""
    order = rng.sample(range(len(data)), len(data))
    piece, longest = [], 0
    for i in order:
        longest_now = max(longest, len(data[i][0]))
        if piece and longest_now * (len(piece) + 1) > budget:
            yield [data[j] for j in piece]
            piece, longest_now = [], len(data[i][0])
        piece.append(i)
        longest = longest_now
    yield [data[j] for j in piece]


def cycles(data, budget, per_cycle, rng):
    pieces = list(micro_batches(data, budget, rng))
    return [pieces[i : i + per_cycle] for i in range(0, len(pieces), per_cycle)]


def collate(rows):
    width = max(len(x) for x, _ in rows)
    x = torch.tensor([a + [PAD] * (width - len(a)) for a, _ in rows])
    y = torch.tensor([b + [IGNORE] * (width - len(b)) for _, b in rows])
    return x, y


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(0.05))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Sorter(nn.Module):
    def __init__(self, dim=40, heads=4, depth=2):
        super().__init__()
        self.token, self.place = nn.Embedding(13, dim, padding_idx=PAD), nn.Embedding(LONGEST, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, 12)

    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:  # padding stands on the right, so causal attention never reaches it from a real token
            h = checkpoint(block, h, use_reentrant=False) if self.training else block(h)
        return self.out(self.norm(h))


def summed_loss(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=IGNORE, reduction="sum"), logits


def train_cycle(model, optimizer, cycle):
    pieces = [collate(rows) for rows in cycle]
    tokens = sum(int((y != IGNORE).sum()) for _, y in pieces)
    optimizer.zero_grad()
    total = 0.0
    for x, y in pieces:
        loss, _ = summed_loss(model, x, y)
        (loss / tokens).backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total, tokens


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    total = tokens = right = 0
    for start in range(0, len(data), 100):
        x, y = collate(data[start : start + 100])
        loss, logits = summed_loss(model, x, y)
        real = y != IGNORE
        total, tokens = total + loss.item(), tokens + int(real.sum())
        right += ((logits.argmax(-1) == y) | ~real).all(dim=1).sum().item()
    model.train()
    return total / tokens, right / len(data)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(41)
    rng = random.Random(41)
    unique = {}
    while len(unique) < 1500:  # every problem once, so that no validation problem was trained on
        x, y = problem(rng)
        unique[tuple(x)] = (x, y)
    data = rng.sample(list(unique.values()), len(unique))
    train, valid = data[:1200], data[1200:]
    epochs, peak = 10, 4e-3
    plan = [cycles(train, budget=380, per_cycle=2, rng=rng) for _ in range(epochs)]
    total_steps, warmup, model = sum(map(len, plan)), 40, Sorter()
    optimizer = torch.optim.Adam(model.parameters(), lr=peak, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: (s + 1) / warmup if s < warmup else 0.5 * (1 + math.cos(math.pi * (s - warmup) / (total_steps - warmup))),
    )
    for epoch, epoch_cycles in enumerate(plan, 1):
        loss = tokens = 0
        for cycle in epoch_cycles:
            a, b = train_cycle(model, optimizer, cycle)
            schedule.step()
            loss, tokens = loss + a, tokens + b
        held_out, exact = evaluate(model, valid)
        print(f"epoch {epoch}  {len(epoch_cycles)} steps  train {loss / tokens:.4f}  valid {held_out:.4f}  solved {exact:.3f}")


if __name__ == "__main__":
    main()
