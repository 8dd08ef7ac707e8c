# kind: numbers
# expect: nothing
# why: Textbook bf16 training with float32 master weights: the optimizer holds the masters, the gradients are unscaled before clipping and assigned afresh each step, the bf16 copy is overwritten from the masters, and the hand-written log-softmax is normalised.
"""bfloat16 model with float32 master weights and a static loss scale."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(111)

SCALE, CLASSES, DIM = 256.0, 5, 16


def log_softmax32(logits):
    z = logits.float()
    z = z - z.amax(-1, keepdim=True).detach()
    return z - z.exp().sum(-1, keepdim=True).log()


class MasterWeights:
    """Keeps a float32 copy of every low-precision parameter."""

    def __init__(self, model, make_optimizer):
        self.low = [p for p in model.parameters() if p.requires_grad]
        self.master = [p.detach().float().clone() for p in self.low]
        self.opt = make_optimizer(self.master)

    def step(self, scale, max_norm):
        for m, p in zip(self.master, self.low):
            m.grad = p.grad.float() / scale
            p.grad = None
        norm = nn.utils.clip_grad_norm_(self.master, max_norm)
        if torch.isfinite(norm):
            self.opt.step()
        with torch.no_grad():
            for m, p in zip(self.master, self.low):
                p.copy_(m)
        return norm.item()


def make_model():
    return nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
                         nn.Linear(64, CLASSES)).to(torch.bfloat16)


def make_split(n, g, w):
    x = torch.randn(n, DIM, generator=g)
    y = (x @ w[0]).tanh().mm(w[1]).argmax(1)
    return x, y


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logp = log_softmax32(model(x.to(torch.bfloat16)))
    result = F.nll_loss(logp, y).item(), (logp.argmax(1) == y).float().mean().item()
    model.train()
    return result


def main():
    g = torch.Generator().manual_seed(37)
    w = torch.randn(DIM, 12, generator=g), torch.randn(12, CLASSES, generator=g)
    xt, yt = make_split(4096, g, w)
    xv, yv = make_split(1024, g, w)
    model = make_model()
    trainer = MasterWeights(model, lambda ps: torch.optim.AdamW(ps, lr=1e-3, weight_decay=1e-3))

    step = 0
    for epoch in range(5):
        for idx in torch.randperm(len(xt), generator=g).split(64):
            logp = log_softmax32(model(xt[idx].to(torch.bfloat16)))
            loss = F.nll_loss(logp, yt[idx])
            (loss * SCALE).backward()
            norm = trainer.step(SCALE, max_norm=1.0)
            step += 1
        nll, acc = evaluate(model, xv, yv)
        print(f"step {step} loss {loss.item():.3f} grad norm {norm:.2f} valid nll {nll:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
