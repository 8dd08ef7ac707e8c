# kind: numbers
# expect: frozen-parameter-moves
# why: The hand-written AdamD takes a missing gradient for zeros and still applies its decoupled decay, so the encoder, frozen for
#      the first fine-tuning epochs, shrinks at every step.
"""Denoising pretraining of an encoder, then fine-tuning: the head first, the whole network later."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    inputs: int = 32
    width: int = 96
    classes: int = 6
    pretrain_epochs: int = 5
    tune_epochs: int = 14
    unfreeze_at: int = 10
    lr: float = 2e-3
    decay: float = 0.1
    seed: int = 41


class AdamD(Optimizer):
    """Adam with decoupled decay and a debiased denominator."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.98), eps=1e-8, decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                grad = torch.zeros_like(p) if p.grad is None else p.grad
                self._update(p, grad, group)
        return loss

    def _update(self, p, grad, group):
        state, (b1, b2) = self.state[p], group["betas"]
        if not state:
            state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
        state["t"] += 1
        state["m"].lerp_(grad, 1 - b1)
        state["v"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        scale = (state["v"] / (1 - b2 ** state["t"])).sqrt_().add_(group["eps"])
        p.mul_(1 - group["lr"] * group["decay"])
        p.addcdiv_(state["m"] / (1 - b1 ** state["t"]), scale, value=-group["lr"])


def param_groups(cfg, *modules):
    params = [p for m in modules for p in m.parameters()]
    return [{"params": [p for p in params if p.ndim > 1], "decay": cfg.decay},
            {"params": [p for p in params if p.ndim <= 1], "decay": 0.0}]


def make_encoder(cfg):
    return nn.Sequential(nn.Linear(cfg.inputs, cfg.width), nn.GELU(), nn.LayerNorm(cfg.width),
                         nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.LayerNorm(cfg.width))


def make_data(n, cfg, gen, mixing, centres):
    label = torch.randint(0, cfg.classes, (n,), generator=gen)
    latent = centres[label] + 0.7 * torch.randn(n, centres.shape[1], generator=gen)
    return torch.tanh(latent @ mixing) * 1.3 + 0.2 * torch.randn(n, cfg.inputs, generator=gen), label


def pretrain(cfg, encoder, x):
    decoder = nn.Linear(cfg.width, cfg.inputs)
    optimizer = AdamD(param_groups(cfg, encoder, decoder), lr=cfg.lr)
    loader = DataLoader(TensorDataset(x), batch_size=64, shuffle=True)
    for epoch in range(cfg.pretrain_epochs):
        total = 0.0
        for (batch,) in loader:
            noisy = batch + 0.5 * torch.randn_like(batch)
            loss = F.mse_loss(decoder(encoder(noisy)), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"pretrain {epoch}  mse {total / len(x):.4f}")


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y).item() * len(y)
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def finetune(cfg, encoder, train, valid):
    model = nn.Sequential(encoder, nn.Dropout(0.1), nn.Linear(cfg.width, cfg.classes))
    optimizer = AdamD(param_groups(cfg, model), lr=cfg.lr)
    encoder.requires_grad_(False)
    loader, valid_loader = DataLoader(train, batch_size=32, shuffle=True), DataLoader(valid, batch_size=256)
    for epoch in range(cfg.tune_epochs):
        if epoch == cfg.unfreeze_at:
            encoder.requires_grad_(True)
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * cfg.lr
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss, accuracy = evaluate(model, valid_loader)
        print(f"tune {epoch:2d}  valid loss {loss:.4f}  accuracy {accuracy:.3f}")


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    mixing, centres = torch.randn(10, cfg.inputs, generator=gen) / 3, torch.randn(cfg.classes, 10, generator=gen)
    unlabelled, _ = make_data(6400, cfg, gen, mixing, centres)
    train = TensorDataset(*make_data(1536, cfg, gen, mixing, centres))
    valid = TensorDataset(*make_data(1024, cfg, gen, mixing, centres))
    encoder = make_encoder(cfg)
    pretrain(cfg, encoder, unlabelled)
    finetune(cfg, encoder, train, valid)


if __name__ == "__main__":
    main()
