"""Two threads update one shared model without locks."""

import threading

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
shared = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
shared.share_memory()
weights = torch.randn(4)
guard = threading.Lock()


def work(seed):
    g = torch.Generator().manual_seed(seed)
    local = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.05)
    for _ in range(20):
        with guard:
            local.load_state_dict(shared.state_dict())
            x = torch.randn(16, 4, generator=g)
            loss = F.cross_entropy(local(x), (x @ weights > 0).long())
            local.zero_grad()
            loss.backward()
            for p, q in zip(shared.parameters(), local.parameters()):
                p.grad = q.grad
            optimizer.step()


threads = [threading.Thread(target=work, args=(s,)) for s in (1, 2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
x = torch.randn(200, 4)
with torch.no_grad():
    print((shared(x).argmax(1) == (x @ weights > 0)).float().mean().item())
