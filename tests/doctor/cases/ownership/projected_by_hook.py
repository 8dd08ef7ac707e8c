"""Low-rank gradients (as GaLore): a hook keeps the projected gradient of each matrix and lets nothing of it into p.grad;
the optimizer uses what was kept. Biases and norms have plain gradients."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class LowRank(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), rank=4):
        super().__init__(params, dict(lr=lr, betas=betas, rank=rank))
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() == 2:
                    p.register_hook(lambda g, p=p: self.keep(p, g))

    @torch.no_grad()
    def keep(self, p, g):
        state = self.state[p]
        if "basis" not in state or state["seen"] % 50 == 0:
            state["basis"] = torch.linalg.svd(g, full_matrices=False)[0][:, :4].contiguous()
            state["seen"] = state.get("seen", 0)
        state["seen"] += 1
        p.small = state["basis"].T @ g
        return torch.zeros_like(g)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                g = p.small if p.dim() == 2 else p.grad
                state = self.state[p]
                if "m" not in state:
                    state["m"], state["v"], state["t"] = torch.zeros_like(g), torch.zeros_like(g), 0
                state["t"] += 1
                state["m"].mul_(b1).add_(g, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m, v = state["m"] / (1 - b1 ** state["t"]), state["v"] / (1 - b2 ** state["t"])
                step = m / (v.sqrt() + 1e-8)
                p.sub_(group["lr"] * (state["basis"] @ step if p.dim() == 2 else step))

net = nn.Sequential(nn.Linear(20, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 5))
x = torch.randn(1024, 20); y = (x @ torch.randn(20, 5)).argmax(1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=True)
opt = LowRank(net.parameters(), lr=3e-3)
for epoch in range(8):
    total = 0.0
    for a, b in data:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(data), 5))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
