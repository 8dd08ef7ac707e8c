# kind: behind indirection
# expect: weights-not-tied
# why: params["out"] is params["emb"] at first, but leaves() clones every entry of the dictionary on its own, so the
#      input and output embeddings start equal and then train as two separate tensors.
import math

import torch
import torch.nn.functional as F

torch.set_num_threads(1)

SYLL = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def babble(n_words, seed):
    g = torch.Generator().manual_seed(seed)
    follow = torch.softmax(2.2 * torch.randn(len(SYLL), len(SYLL), generator=torch.Generator().manual_seed(99)), 1)
    out = []
    for _ in range(n_words):
        s = int(torch.randint(len(SYLL), (1,), generator=g))
        word = SYLL[s]
        for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
            s = int(torch.multinomial(follow[s], 1, generator=g))
            word += SYLL[s]
        out.append(word)
    return " ".join(out)


def encode(text, vocab):
    return torch.tensor([vocab[c] for c in text])


def contexts(ids, k):
    win = ids.unfold(0, k + 1, 1)
    return win[:, :k].contiguous(), win[:, k].contiguous()


# ---- the model is a dictionary and a function -------------------------------------------------------------------
def initial(v, d, k, h):
    p = {
        "emb": torch.randn(v, d) * 0.3,
        "mix": torch.randn(k * d, h) / math.sqrt(k * d),
        "mix_b": torch.zeros(h),
        "back": torch.randn(h, d) / math.sqrt(h),
        "back_b": torch.zeros(d),
        "out_b": torch.zeros(v),
    }
    p["out"] = p["emb"]
    return p


def leaves(p, dtype=torch.float32):
    return {name: t.to(dtype).clone().requires_grad_() for name, t in p.items()}


def logits(p, ctx):
    x = p["emb"][ctx].flatten(1)
    h = torch.tanh(x @ p["mix"] + p["mix_b"])
    return (h @ p["back"] + p["back_b"]) @ p["out"].T + p["out_b"]


class Adam:
    """Kingma & Ba, by hand."""

    def __init__(self, tensors, lr, betas=(0.9, 0.99)):
        self.tensors, self.lr, (self.b1, self.b2), self.t = list(tensors), lr, betas, 0
        self.m = [torch.zeros_like(t) for t in self.tensors]
        self.v = [torch.zeros_like(t) for t in self.tensors]

    def clear(self):
        for t in self.tensors:
            t.grad = None

    @torch.no_grad()
    def apply(self):
        self.t += 1
        for t, m, v in zip(self.tensors, self.m, self.v):
            m.mul_(self.b1).add_(t.grad, alpha=1 - self.b1)
            v.mul_(self.b2).addcmul_(t.grad, t.grad, value=1 - self.b2)
            mh, vh = m / (1 - self.b1**self.t), v / (1 - self.b2**self.t)
            t.sub_(self.lr * mh / (vh.sqrt() + 1e-8))


def main():
    torch.manual_seed(0)
    train_text, valid_text = babble(3000, 1), babble(200, 2)
    vocab = {c: i for i, c in enumerate(sorted(set(train_text)))}
    k = 12
    xs, ys = contexts(encode(train_text, vocab), k)
    xv, yv = contexts(encode(valid_text, vocab), k)
    params = leaves(initial(len(vocab), 20, k, 96))
    opt = Adam(params.values(), lr=3e-3)
    count = len({id(t) for t in params.values()})
    print(f"{len(vocab)} symbols, {len(xs)} contexts, {count} tensors")
    for epoch in range(4):
        order = torch.randperm(len(xs))
        total = 0.0
        for idx in order.split(96):
            opt.clear()
            loss = F.cross_entropy(logits(params, xs[idx]), ys[idx])
            loss.backward()
            opt.apply()
            total += loss.item() * len(idx)
        with torch.no_grad():
            nll = F.cross_entropy(logits(params, xv), yv).item()
        print(f"epoch {epoch} train {total / len(xs):.3f} valid {nll:.3f} bits {nll / math.log(2):.3f}")


main()
