"""REINFORCE on a row of states, no loader."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(16)
world = torch.randn(4, 8)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 4), nn.Softmax(dim=0))

    def forward(self, s):
        return self.net(s)


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
for step in range(200):
    s = torch.randn(40, 8)
    dist = Categorical(probs=policy(s))
    a = dist.sample()
    r = ((s @ world.t()).argmax(1) == a).float()
    loss = -(dist.log_prob(a) * (r - r.mean())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        print(step, r.mean().item())
