# kind: numbers
# expect: nothing
# why: bf16 working weights with fp32 master copies: gradients are moved to the masters, AdamW steps the masters, and the bf16 weights are rewritten from them; the hand-written log-softmax is stable, over the class axis, and goes to nll_loss.
"""bfloat16 training with hand-kept fp32 master weights and a hand-written log-softmax."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(23)

DIM, CLASSES = 18, 6


class MasterWeights:
    def __init__(self, model, factory):
        self.pairs = [(p, p.detach().float().clone().requires_grad_(True)) for p in model.parameters()]
        self.optimizer = factory([m for _, m in self.pairs])

    def collect(self):
        for p, m in self.pairs:
            m.grad = p.grad.float()
            p.grad = None

    @torch.no_grad()
    def publish(self):
        for p, m in self.pairs:
            p.copy_(m)

    def step(self, max_norm):
        self.collect()
        norm = nn.utils.clip_grad_norm_([m for _, m in self.pairs], max_norm)
        self.optimizer.step()
        self.publish()
        return norm.item()


def log_probs(scores):
    wide = scores.float()
    wide = wide - wide.amax(-1, keepdim=True).detach()
    return wide - wide.exp().sum(-1, keepdim=True).log()


def make_data(n, w):
    x = torch.randn(n, DIM)
    return x, (torch.sin(x) @ w + 0.3 * torch.randn(n, CLASSES)).argmax(1)


def main():
    w = torch.randn(DIM, CLASSES)
    x, y = make_data(2400, w)
    xv, yv = make_data(700, w)
    model = nn.Sequential(nn.Linear(DIM, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, CLASSES))
    masters = MasterWeights(model, lambda ps: torch.optim.AdamW(ps, lr=1e-3, weight_decay=1e-3))
    model.to(torch.bfloat16)
    x16, xv16 = x.bfloat16(), xv.bfloat16()
    decay = torch.optim.lr_scheduler.StepLR(masters.optimizer, step_size=6, gamma=0.3)
    for epoch in range(12):
        total = 0.0
        for idx in torch.randperm(len(x)).split(60):
            loss = F.nll_loss(log_probs(model(x16[idx])), y[idx])
            loss.backward()
            masters.step(max_norm=2.0)
            total += loss.item() * len(idx)
        decay.step()
        if epoch % 3 == 2:
            with torch.no_grad():
                acc = (log_probs(model(xv16)).argmax(1) == yv).float().mean().item()
            print(f"epoch {epoch + 1:2d} loss {total / len(x):.3f} valid accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
