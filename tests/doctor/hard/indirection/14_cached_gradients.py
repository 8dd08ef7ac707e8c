# kind: behind indirection
# expect: nothing
# like: detached-loss
# why: the contrastive loss is computed on detached embeddings on purpose (GradCache): its gradients are then fed into a
#      second forward with embeddings.backward(cached), which is exactly the gradient of the big batch.
"""Contrastive learning with a batch of 128 encoded in chunks of 32 through cached gradients."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, d, h, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def nt_xent(a, b, tau=0.2):
    logits = a @ b.t() / tau
    labels = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))


class GradCache:
    def __init__(self, encoder, loss_fn, chunk):
        self.encoder, self.loss_fn, self.chunk = encoder, loss_fn, chunk

    @torch.no_grad()
    def represent(self, x):
        return torch.cat([self.encoder(c) for c in x.split(self.chunk)])

    def backward(self, *views):
        reps = [self.represent(v).requires_grad_() for v in views]
        loss = self.loss_fn(*reps)
        cached = torch.autograd.grad(loss, reps)
        for view, grads in zip(views, cached):
            for c, g in zip(view.split(self.chunk), grads.split(self.chunk)):
                self.encoder(c).backward(g)
        return loss.item()


def scenes(n, g, mixer):
    z = torch.randn(n, 8, generator=g)
    return z, torch.tanh(z @ mixer)


def view(x):
    noisy = x + 0.25 * torch.randn_like(x)
    return noisy * (torch.rand_like(x) > 0.2) * 1.25


@torch.no_grad()
def retrieval(encoder, a, b):
    encoder.eval()
    return (encoder(a) @ encoder(b).t()).argmax(1).eq(torch.arange(len(a))).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--chunk", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(14)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(140)
    mixer = torch.randn(8, 48, generator=g)
    _, x = scenes(3840, g, mixer)
    _, xv = scenes(384, g, mixer)
    va, vb = view(xv), view(xv)
    enc = Encoder(48, 96, 24)
    opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
    engine = GradCache(enc, nt_xent, args.chunk)
    for epoch in range(args.epochs):
        enc.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            opt.zero_grad()
            total += engine.backward(view(x[idx]), view(x[idx])) * len(idx)
            opt.step()
        print(f"epoch {epoch:2d} loss {total / len(x):.4f} valid retrieval {retrieval(enc, va, vb):.3f}")


if __name__ == "__main__":
    main()
