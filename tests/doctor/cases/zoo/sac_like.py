import copy

import torch
import torch.nn.functional as F
from torch import nn


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


torch.manual_seed(31)
policy = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))
q = Q()
q_target = copy.deepcopy(q).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
q_opt = torch.optim.Adam(q.parameters(), lr=3e-3)
pi_opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
alpha_opt = torch.optim.Adam([log_alpha], lr=3e-3)


def act(s):
    mean, log_std = policy(s).chunk(2, 1)
    dist = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = dist.rsample()
    a = torch.tanh(raw)
    return a, (dist.log_prob(raw) - torch.log(1 - a.pow(2) + 1e-6)).sum(1, keepdim=True)


for step in range(35):
    s = torch.randn(32, 3)
    with torch.no_grad():
        a, _ = act(s)
        r = -(a - torch.tanh(s[:, :1])).pow(2)
        s2 = 0.9 * s + 0.1 * torch.randn(32, 3)
        a2, logp2 = act(s2)
        y = r + 0.9 * (q_target(s2, a2) - log_alpha.exp() * logp2)
    q_loss = F.mse_loss(q(s, a), y)
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()
    a_new, logp = act(s)
    pi_loss = (log_alpha.exp().detach() * logp - q(s, a_new)).mean()
    pi_opt.zero_grad()
    pi_loss.backward()
    pi_opt.step()
    alpha_loss = -(log_alpha.exp() * (logp.detach() - 1.0)).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
    with torch.no_grad():
        for p, t in zip(q.parameters(), q_target.parameters()):
            t.lerp_(p, 0.05)
print(q_loss.item(), pi_loss.item(), log_alpha.item())
