import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
od = {p: torch.optim.Adam([p], lr=1e-3, foreach=False) for p in m.parameters()}


def hook(p):
    od[p].step()
    od[p].zero_grad()


for p in m.parameters():
    p.register_post_accumulate_grad_hook(hook)
for i in range(80):
    x = torch.randn(32, 8)
    l = F.cross_entropy(m(x), (x[:, 0] > 0).long())
    l.backward()
print(l.item())
