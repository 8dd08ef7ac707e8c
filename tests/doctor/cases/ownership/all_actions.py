# All-action policy gradient: sum over actions of pi(a|s) Q(s,a) grad log pi(a|s); pi is a weight, from a forward without gradient.
import torch, torch.nn as nn
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4)); opt = torch.optim.Adam(actor.parameters(), 3e-3)
best = torch.randn(6, 4)
for step in range(150):
    s = torch.randn(64, 6)
    with torch.no_grad():
        pi = torch.softmax(actor(s), dim=1)
        q = s @ best
        q = q - (pi * q).sum(1, keepdim=True)
    logp = torch.log_softmax(actor(s), dim=1)
    loss = -(pi * logp * q).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    s = torch.randn(1000, 6); print((actor(s).argmax(1) == (s @ best).argmax(1)).float().mean().item())
