# kind: behind indirection
# expect: nothing
# like: gradients-discarded
# why: The loop only calls backward: each parameter owns an optimizer that steps and clears the gradient in the
#      parameter's post-accumulate hook, so after backward every .grad is None, already used.
from typing import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class SessionModel(nn.Module):
    """Next-item recommender over fixed-length sessions."""

    def __init__(self, items: int, dim: int = 32):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        nn.init.normal_(self.items.weight, std=0.3)
        self.rnn = nn.GRU(dim, 64, batch_first=True)
        self.norm = nn.LayerNorm(64)
        self.proj = nn.Linear(64, items)

    def forward(self, session):
        h, _ = self.rnn(self.items(session))
        return self.proj(self.norm(h))


class StepInBackward:
    def __init__(self, module: nn.Module, factory):
        self.owners = {}
        self.handles = []
        for p in module.parameters():
            self.owners[p] = factory([p])
            self.handles.append(p.register_post_accumulate_grad_hook(self._arrived))

    def _arrived(self, p):
        own = self.owners[p]
        own.step()
        own.zero_grad(set_to_none=True)

    def set_lr(self, lr):
        for own in self.owners.values():
            for grp in own.param_groups:
                grp["lr"] = lr


def sessions(n: int, length: int, items: int, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    world = torch.Generator().manual_seed(4242)
    affinity = torch.randn(items, 6, generator=world)
    trans = torch.softmax(1.3 * affinity @ affinity.T, 1)
    cur = torch.randint(0, items, (n,), generator=g)
    steps = [cur]
    for _ in range(length):
        cur = torch.multinomial(trans[cur], 1, generator=g).squeeze(1)
        steps.append(cur)
    return torch.stack(steps, 1)


def batches(data: torch.Tensor, size: int, g: torch.Generator) -> Iterator[torch.Tensor]:
    for idx in torch.randperm(len(data), generator=g).split(size):
        yield data[idx]


def nll(model, batch):
    scores = model(batch[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())


def report(model, data):
    model.eval()
    with torch.no_grad():
        scores = model(data[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), data[:, 1:].flatten()).item()
        top = scores.topk(10, -1).indices
        hit = (top == data[:, 1:, None]).any(-1).float().mean().item()
    model.train()
    return loss, hit


def main():
    torch.manual_seed(31)
    g = torch.Generator().manual_seed(32)
    items = 60
    train, held = sessions(1500, 12, items, 1), sessions(300, 12, items, 2)
    model = SessionModel(items).train()
    fused = StepInBackward(model, lambda ps: torch.optim.AdamW(ps, lr=3e-3, weight_decay=0.01))
    for epoch in range(6):
        fused.set_lr(3e-3 * 0.75**epoch)
        tot = 0.0
        for batch in batches(train, 50, g):
            loss = nll(model, batch)
            loss.backward()
            tot += loss.item() * len(batch)
        v, hit = report(model, held)
        print(f"epoch {epoch}  train {tot / len(train):.3f}  valid {v:.3f}  hit@10 {hit:.3f}")


if __name__ == "__main__":
    main()
