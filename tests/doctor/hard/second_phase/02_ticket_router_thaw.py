# kind: in a second phase
# expect: nothing
# like: parameter-not-optimized
# why: the optimizer begins with the head only, but every block that is thawed later is handed to it with
#      add_param_group (and a lower rate) in the same moment, so nothing gets gradients without being optimized.
"""Support-ticket routing: pretrain on token order, then thaw the encoder block by block from the top."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
VOCAB, LENGTH, QUEUES = 150, 18, 6


def tickets(count, generator):
    queue = torch.randint(0, QUEUES, (count,), generator=generator)
    cue = queue[:, None] * 12 + torch.randint(0, 12, (count, LENGTH), generator=generator)
    filler = torch.randint(72, VOCAB, (count, LENGTH), generator=generator)
    tokens = torch.where(torch.rand(count, LENGTH, generator=generator) < 0.2, cue, filler)
    return tokens, queue


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Conv1d(dim, dim, 3, padding=1, groups=4)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, h):
        h = h + self.mix(h.transpose(1, 2)).transpose(1, 2)
        return h + self.ff(h)


class Router(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(3)])
        self.norm = nn.LayerNorm(dim)

    def encode(self, tokens):
        h = self.embed(tokens)
        for block in self.blocks:
            h = block(h)
        return self.norm(h)


def batches(n, size):
    return torch.randperm(n).split(size)


def pretrain(model, tokens, epochs):
    """Was the ticket cut and its halves swapped with another ticket's? (pair discrimination)"""
    judge = nn.Linear(40, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *judge.parameters()], lr=2e-3)
    for epoch in range(epochs):
        total = 0.0
        for idx in batches(len(tokens), 64):
            x = tokens[idx].clone()
            fake = torch.rand(len(x)) < 0.5
            swapped = torch.cat([x[:, : LENGTH // 2], x.roll(1, 0)[:, LENGTH // 2 :] * 7 % VOCAB], dim=1)
            x = torch.where(fake[:, None], swapped, x)
            logit = judge(model.encode(x).mean(1)).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(logit, fake.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"pretrain {epoch}: loss {total / len(tokens):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(5)
    generator = torch.Generator().manual_seed(5)
    x, y = tickets(2560, generator)
    vx, vy = tickets(640, generator)
    model = Router()
    pretrain(model, x, epochs=4)

    head = nn.Linear(40, QUEUES)
    model.requires_grad_(False)
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    thaw = {2: model.norm, 3: model.blocks[2], 4: model.blocks[1], 5: model.blocks[0], 6: model.embed}
    for epoch in range(args.epochs):
        if epoch in thaw:
            part = thaw[epoch].requires_grad_(True)
            optimizer.add_param_group({"params": list(part.parameters()), "lr": 1e-3})
        model.train()
        head.train()
        total = 0.0
        for idx in batches(len(x), 64):
            loss = F.cross_entropy(head(model.encode(x[idx]).mean(1)), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        head.eval()
        with torch.no_grad():
            acc = (head(model.encode(vx).mean(1)).argmax(1) == vy).float().mean().item()
        print(f"epoch {epoch}: loss {total / len(x):.4f}  accuracy {acc:.3f}  groups {len(optimizer.param_groups)}")


if __name__ == "__main__":
    main()
