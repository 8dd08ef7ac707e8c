# kind: behind indirection
# expect: nothing
# why: sharpness-aware minimisation: two backwards per step, a parameter excursion written by hand and undone before the base step, gradients cleared between the two passes inside the optimizer; a gradient hook scales one layer on purpose.
"""Own SAM optimizer around SGD, model called through torch.func.functional_call with a dictionary of tensors."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.func import functional_call

torch.set_num_threads(1)
torch.manual_seed(2)


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    def _all(self):
        return [p for g in self.param_groups for p in g["params"] if p.grad is not None]

    @torch.no_grad()
    def ascend(self):
        rho = self.param_groups[0]["rho"]
        params = self._all()
        norm = torch.stack([p.grad.norm() for p in params]).norm() + 1e-12
        self._offsets = [(p, p.grad * (rho / norm)) for p in params]
        for p, e in self._offsets:
            p.add_(e)

    @torch.no_grad()
    def descend(self):
        for p, e in self._offsets:
            p.sub_(e)
        self.base.step()

    def step(self, closure):
        closure = torch.enable_grad()(closure)
        self.zero_grad()
        loss = closure()
        self.ascend()
        self.zero_grad()
        closure()
        self.descend()
        return loss.detach()


def make_closure(model, x, y):
    def closure():
        params = dict(model.named_parameters())
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        loss.backward()
        return loss
    return closure


def make_data(n, w1, w2):
    x = torch.randn(n, 10)
    y = (torch.tanh(x @ w1) @ w2).argmax(1)
    flip = torch.rand(n) < 0.08
    return x, torch.where(flip, torch.randint(0, 4, (n,)), y)


def main():
    w1, w2 = torch.randn(10, 6), torch.randn(6, 4)
    x, y = make_data(1500, w1, w2)
    xt, yt = make_data(600, w1, w2)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    model[0].weight.register_hook(lambda g: 0.5 * g)
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.08, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.base, T_max=20)
    for epoch in range(20):
        total = 0.0
        for idx in torch.randperm(len(x)).split(75):
            total += optimizer.step(make_closure(model, x[idx], y[idx])).item()
        schedule.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                acc = (model(xt).argmax(1) == yt).float().mean().item()
            print(f"epoch {epoch + 1:2d} loss {total / 20:.3f} test {acc:.3f}")


if __name__ == "__main__":
    main()
