# kind: in a second phase
# expect: nothing
# like: weights-not-tied
# why: progressive stacking. The two trained layers are deep-copied on top of themselves, so layers 0/2 and 1/3 begin with
#   equal weights and are meant to drift apart; all four are in the new optimizer.
import copy
import math

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2718)

BASES, MASKED, LENGTH = 4, 4, 32


def strands(count, seed):
    """Each base mostly asks for the next one in the ring, with now and then a free choice."""
    g = torch.Generator().manual_seed(seed)
    base = torch.randint(BASES, (count,), generator=g)
    out = [base]
    for _ in range(LENGTH - 1):
        free = torch.rand(count, generator=g) < 0.2
        base = torch.where(free, torch.randint(BASES, (count,), generator=g), (base + 1) % BASES)
        out.append(base)
    return torch.stack(out, 1)


def positions(length, dim):
    at = torch.arange(length)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(50.0) / dim))
    return torch.cat([at.sin(), at.cos()], 1)


class MaskedModel(nn.Module):
    def __init__(self, dim=48, depth=2):
        super().__init__()
        self.emb = nn.Embedding(BASES + 1, dim)
        self.register_buffer("where", positions(LENGTH, dim))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.05, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, BASES)

    def forward(self, ids):
        x = self.emb(ids) + self.where
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))

    def stack(self):
        self.layers.extend(copy.deepcopy(layer) for layer in list(self.layers))


def hide(seq, gen=None):
    mask = torch.rand(seq.shape, generator=gen) < 0.2
    return seq.masked_fill(mask, MASKED), mask


def loss_on(model, seq, ids, mask):
    return nn.functional.cross_entropy(model(ids)[mask], seq[mask])


def phase(title, model, train, valid, steps, peak):
    opt = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98))
    ramp = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min((k + 1) / 20, (steps - k) / (steps - 20)))
    v_ids, v_mask = hide(valid, torch.Generator().manual_seed(1))
    for step in range(steps):
        model.train()
        seq = train[torch.randint(len(train), (32,))]
        ids, mask = hide(seq)
        loss = loss_on(model, seq, ids, mask)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ramp.step()
        if step % 40 == 39:
            model.eval()
            with torch.no_grad():
                held = loss_on(model, valid, v_ids, v_mask).item()
            print(f"{title}  step {step + 1:3d}  train {loss.item():.3f}  valid {held:.3f}")


train, valid = strands(6000, seed=1), strands(300, seed=2)
model = MaskedModel()
phase("2 layers", model, train, valid, steps=200, peak=2e-3)
model.stack()
phase("4 layers", model, train, valid, steps=160, peak=1e-3)
