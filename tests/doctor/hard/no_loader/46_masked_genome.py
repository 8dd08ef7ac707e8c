# kind: without a DataLoader
# expect: nothing
# like: future-leaks
# why: Masked-token modelling of a DNA stream cut into blocks: the outputs look at later positions on purpose, and only
#      the hidden places count in the loss. Validation blocks come from another chromosome, with masks made once.
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
A, C, G, T, MASK = range(5)
BLOCK, IGNORE = 48, -100


def chromosome(length, gen):
    """Random bases with planted motifs and their reverse complements."""
    motifs = [torch.tensor(m) for m in ([T, A, T, A, A, A, G, C], [G, C, C, G, T, A, G, G, C], [C, A, C, G, T, G, T, A])]
    parts, size = [], 0
    while size < length:
        k = int(torch.randint(0, 4, (1,), generator=gen))
        if k < 3:
            piece = motifs[k]
            if torch.rand(1, generator=gen) < 0.5:
                piece = 3 - piece.flip(0)
        else:
            piece = torch.randint(0, 4, (int(torch.randint(1, 5, (1,), generator=gen)),), generator=gen)
        parts.append(piece)
        size += len(piece)
    return torch.cat(parts)[:length]


def blocks(stream):
    n = len(stream) // BLOCK
    return stream[:n * BLOCK].view(n, BLOCK)


def hide(tokens, gen, share=0.15):
    """BERT's way: of the chosen places 80% become MASK, 10% a random base, 10% stay."""
    chosen = torch.rand(tokens.shape, generator=gen) < share
    how = torch.rand(tokens.shape, generator=gen)
    noise = torch.randint(0, 4, tokens.shape, generator=gen)
    shown = torch.where(chosen & (how < 0.8), torch.full_like(tokens, MASK), tokens)
    shown = torch.where(chosen & (how >= 0.8) & (how < 0.9), noise, shown)
    target = torch.where(chosen, tokens, torch.full_like(tokens, IGNORE))
    return shown, target


class Layer(nn.Module):
    def __init__(self, dim, reach):
        super().__init__()
        self.pre, self.mid = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.Conv1d(dim, dim, 2 * reach + 1, padding=reach)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + F.gelu(self.mix(self.pre(x).transpose(1, 2)).transpose(1, 2))
        return x + self.ff(self.mid(x))


class GenomeNet(nn.Module):
    def __init__(self, dim=40, reach=4, depth=2):
        super().__init__()
        self.base = nn.Embedding(5, dim)
        self.layers = nn.Sequential(*[Layer(dim, reach) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.base(x))))


def train():
    torch.manual_seed(50)
    gen = torch.Generator().manual_seed(50)
    first = chromosome(40_000, gen)
    other = blocks(chromosome(6_000, gen))
    exam = [hide(part, gen) for part in other.split(32)]

    model = GenomeNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    updates = 0
    for epoch in range(9):
        model.train()
        shift = int(torch.randint(0, BLOCK, (1,), generator=gen))
        table = blocks(first[shift:])
        table = table[torch.randperm(len(table), generator=gen)]
        total, places = 0.0, 0
        for part in table.split(24):
            shown, target = hide(part, gen)
            loss = F.cross_entropy(model(shown).flatten(0, 1), target.flatten(), ignore_index=IGNORE)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            n = (target != IGNORE).sum().item()
            total, places, updates = total + loss.item() * n, places + n, updates + 1
        model.eval()
        vtotal, right, vplaces = 0.0, 0, 0
        with torch.no_grad():
            for shown, target in exam:
                logits = model(shown)
                known = target != IGNORE
                vtotal += F.cross_entropy(logits[known], target[known], reduction="sum").item()
                right += (logits.argmax(-1)[known] == target[known]).sum().item()
                vplaces += known.sum().item()
        print(f"epoch {epoch} updates {updates} train {total / places:.4f} "
              f"valid {vtotal / vplaces:.4f} (chance {math.log(4):.3f}) acc {right / vplaces:.3f}")


train()
