# kind: behind indirection
# expect: nothing
# like: detached-loss
# why: Gradient caching: the contrastive loss starts from detached embeddings and its backward reaches no encoder weight;
#      the gradients at the embeddings are then sent through the encoders chunk by chunk. The result is exact.
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class Tower(nn.Module):
    def __init__(self, vocab, dim=48, out=24):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        nn.init.normal_(self.bag.weight, std=0.5)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, out))

    def forward(self, tokens):
        return F.normalize(self.mlp(self.bag(tokens)), dim=-1)


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        logits = self.log.exp().clamp(max=50) * a @ b.T
        target = torch.arange(len(a))
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


class GradCache:
    def __init__(self, towers, loss, chunk):
        self.towers, self.loss, self.chunk = towers, loss, chunk

    def _embed(self, tower, tokens):
        with torch.no_grad():
            return torch.cat([tower(t) for t in tokens.split(self.chunk)])

    def _replay(self, tower, tokens, grads):
        for t, g in zip(tokens.split(self.chunk), grads.split(self.chunk)):
            torch.autograd.backward(tower(t), g)

    def backward(self, *inputs):
        reps = [self._embed(m, x).requires_grad_() for m, x in zip(self.towers, inputs)]
        value = self.loss(*reps)
        value.backward()
        for m, x, r in zip(self.towers, inputs, reps):
            self._replay(m, x, r.grad)
        return value.item()


def pairs(n, seed):
    """Questions and answers share a hidden topic mixture but use separate vocabularies."""
    g, world = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(7)
    topic_q = torch.softmax(2.2 * torch.randn(16, 300, generator=world), 1)
    topic_a = torch.softmax(2.2 * torch.randn(16, 260, generator=world), 1)
    mix = torch.softmax(3 * torch.randn(n, 16, generator=g), 1)
    q = torch.multinomial(mix @ topic_q, 14, replacement=True, generator=g)
    a = torch.multinomial(mix @ topic_a, 18, replacement=True, generator=g)
    return q, a


@torch.no_grad()
def recall(ask, answer, q, a, k=5):
    ask.eval(), answer.eval()
    sim = ask(q) @ answer(a).T
    hit = (sim.topk(k, 1).indices == torch.arange(len(q))[:, None]).any(1)
    ask.train(), answer.train()
    return hit.float().mean().item()


def main():
    torch.manual_seed(23)
    g = torch.Generator().manual_seed(24)
    q, a = pairs(3072, 1)
    vq, va = pairs(200, 2)
    ask, answer, loss = Tower(300), Tower(260), Temperature()
    params = [*ask.parameters(), *answer.parameters(), *loss.parameters()]
    opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=1e-3)
    cache = GradCache((ask, answer), loss, chunk=32)
    print(f"recall@5 before: {recall(ask, answer, vq, va):.3f}")
    for epoch in range(7):
        total = n = 0
        for idx in torch.randperm(len(q), generator=g).split(128):
            opt.zero_grad()
            total += cache.backward(q[idx], a[idx])
            opt.step()
            n += 1
        print(f"epoch {epoch} loss {total / n:.4f} recall@5 {recall(ask, answer, vq, va):.3f}")


if __name__ == "__main__":
    main()
