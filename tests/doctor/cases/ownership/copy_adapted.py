# First-order MAML, the learner inside a module: each call adapts a copy of the trained network.
import copy, torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    def forward(self, xs, ys, xq, yq):
        fast = copy.deepcopy(self.net)
        for _ in range(3):
            grads = torch.autograd.grad(F.mse_loss(fast(xs), ys), list(fast.parameters()))
            with torch.no_grad():
                for p, g in zip(fast.parameters(), grads): p -= 0.05 * g
        loss = F.mse_loss(fast(xq), yq)
        grads = torch.autograd.grad(loss, list(fast.parameters()))
        for p, g in zip(self.net.parameters(), grads):
            p.grad = g.clone() if p.grad is None else p.grad + g
        return loss.detach()
meta = Meta(); opt = torch.optim.Adam(meta.parameters(), 1e-3)
for step in range(120):
    opt.zero_grad()
    a, ph = torch.rand(1) * 4 + 1, torch.rand(1) * 3
    x = torch.rand(20, 1) * 10 - 5; y = a * torch.sin(x + ph)
    loss = meta(x[:10], y[:10], x[10:], y[10:])
    opt.step()
print(loss.item())
