# the critic's loss is computed from detached values
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(6, 3), nn.Linear(6, 1)
oa, oc = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
for i in range(50):
    s = torch.randn(20, 6)
    r = s.sum(1)
    logits = actor(s)
    value = critic(s).detach().squeeze(1)
    adv = r - value
    a = torch.distributions.Categorical(logits=logits)
    act = a.sample()
    loss = -(a.log_prob(act) * adv).mean() + ((value - r) ** 2).mean()
    oa.zero_grad()
    oc.zero_grad()
    loss.backward()
    oa.step()
    oc.step()
