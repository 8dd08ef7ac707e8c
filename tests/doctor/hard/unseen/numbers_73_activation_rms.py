# kind: numbers
# expect: graph-kept
# why: the forward hook keeps an exponential average of each layer's activation size without detaching it; every new value is chained to all earlier ones, and the squared activations saved in these graphs are never freed, so memory grows with every training step.
"""Regression of material strength, with a monitor of activation sizes per layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(44)

INPUTS = 20


def specimens(n, gen):
    w = torch.randn(INPUTS, 5, generator=torch.Generator().manual_seed(70)) / INPUTS ** 0.5
    x = torch.randn(n, INPUTS, generator=gen)
    z = x @ w
    y = torch.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.3 * z[:, 3:].abs().sum(1)
    return x, (y + 0.05 * torch.randn(n, generator=gen)).unsqueeze(1)


class ActivationSize:
    """Running root mean square of what each layer puts out; tells dying or exploding layers."""

    def __init__(self, model, kinds=(nn.Linear,), momentum=0.98):
        self.momentum, self.size = momentum, {}
        for name, layer in model.named_modules():
            if isinstance(layer, kinds):
                layer.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def hook(module, args, out):
            if not module.training:
                return
            rms = out.pow(2).mean().sqrt()
            old = self.size.get(name, rms)
            self.size[name] = self.momentum * old + (1 - self.momentum) * rms
        return hook

    def __str__(self):
        return " ".join(f"{k}={v.item():.2f}" for k, v in self.size.items())


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(F.silu(self.a(self.norm(x))))


def network(width=128):
    return nn.Sequential(nn.Linear(INPUTS, width), Residual(width), Residual(width), nn.Linear(width, 1))


def main():
    gen = torch.Generator().manual_seed(1)
    x_val, y_val = specimens(1000, torch.Generator().manual_seed(2))
    model = network()
    monitor = ActivationSize(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=400)
    for step in range(1, 401):
        x, y = specimens(160, gen)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 80 == 0:
            model.eval()
            with torch.no_grad():
                val = F.mse_loss(model(x_val), y_val).item()
            model.train()
            print(f"step {step:4d}  train {loss.item():.4f}  val {val:.4f}  {monitor}")


if __name__ == "__main__":
    main()
