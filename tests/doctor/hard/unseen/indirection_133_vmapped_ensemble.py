# kind: indirection
# expect: nothing
# why: The optimizer owns the stacked leaf tensors that functional_call uses, so the template modules get no gradients on purpose; every member has its own batch, evaluation is in eval mode under inference_mode, and the best weights are cloned and written back at the end.
"""Deep ensemble of heteroscedastic regressors trained together through torch.func."""
import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


@dataclass
class Settings:
    members: int = 5
    hidden: int = 48
    batch: int = 64
    steps: int = 900
    check: int = 100
    lr: float = 3e-3
    decay: float = 1e-4


class Regressor(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU())
        self.mean = nn.Linear(hidden, 1)
        self.log_var = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.mean(h).squeeze(-1), self.log_var(h).squeeze(-1).clamp(-6, 4)


def wind_turbine(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 6, generator=gen)
    power = torch.tanh(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.3 * torch.sin(2 * x[:, 3])
    noise = 0.05 + 0.25 * torch.sigmoid(2 * x[:, 4])
    return x, power + noise * torch.randn(n, generator=gen)


def gaussian_nll(mean: Tensor, log_var: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (log_var + (y - mean).square() * torch.exp(-log_var))


class Ensemble:
    def __init__(self, cfg: Settings, inputs: int) -> None:
        self.modules = [Regressor(inputs, cfg.hidden) for _ in range(cfg.members)]
        self.params, self.buffers = stack_module_state(self.modules)
        self.template = copy.deepcopy(self.modules[0]).to("meta")

    def _single(self, params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        return functional_call(self.template, (params, buffers), (x,))

    def own_inputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: members, batch, inputs"""
        return vmap(self._single, in_dims=(0, 0, 0))(self.params, self.buffers, x)

    def shared_inputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: batch, inputs"""
        return vmap(self._single, in_dims=(0, 0, None))(self.params, self.buffers, x)

    def mixture(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_var = self.shared_inputs(x)
        centre = mean.mean(0)
        return centre, (log_var.exp() + mean.square()).mean(0) - centre.square()

    def snapshot(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.params.items()}

    @torch.no_grad()
    def write_back(self, state: dict[str, Tensor]) -> None:
        for index, module in enumerate(self.modules):
            module.load_state_dict({name: p[index] for name, p in state.items()})


def evaluate(ensemble: Ensemble, x: Tensor, y: Tensor) -> tuple[float, float]:
    ensemble.template.eval()
    with torch.inference_mode():
        mean, var = ensemble.mixture(x)
        nll = gaussian_nll(mean, var.log(), y).mean().item()
        rmse = (mean - y).square().mean().sqrt().item()
    ensemble.template.train()
    return nll, rmse


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(41)
    cfg = Settings()
    gen = torch.Generator().manual_seed(2)
    x, y = wind_turbine(3000, gen)
    x_train, y_train, x_valid, y_valid = x[:2400], y[:2400], x[2400:], y[2400:]

    ensemble = Ensemble(cfg, x.shape[1])
    opt = torch.optim.AdamW(ensemble.params.values(), lr=cfg.lr, weight_decay=cfg.decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.steps, eta_min=1e-5)
    bags = torch.stack([torch.randint(0, len(x_train), (len(x_train),)) for _ in range(cfg.members)])
    best, best_state = float("inf"), ensemble.snapshot()

    for step in range(1, cfg.steps + 1):
        index = bags.gather(1, torch.randint(0, len(x_train), (cfg.members, cfg.batch)))
        mean, log_var = ensemble.own_inputs(x_train[index])
        per_member = gaussian_nll(mean, log_var, y_train[index]).mean(1)
        opt.zero_grad()
        per_member.sum().backward()
        opt.step()
        sched.step()
        if step % cfg.check == 0:
            nll, rmse = evaluate(ensemble, x_valid, y_valid)
            print(f"step {step:4d} members {per_member.mean().item():.4f} valid nll {nll:.4f} rmse {rmse:.4f}")
            if nll < best:
                best, best_state = nll, ensemble.snapshot()

    ensemble.write_back(best_state)
    with torch.inference_mode():
        means = torch.stack([m.eval()(x_valid)[0] for m in ensemble.modules])
    print(f"best nll {best:.4f}, rmse of written-back members {(means.mean(0) - y_valid).square().mean().sqrt().item():.4f}")


if __name__ == "__main__":
    main()
