"""Data parallelism in one process: four replicas, gradients averaged over them, one optimizer. They stay equal on purpose."""

import copy, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
base = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
replicas = [copy.deepcopy(base) for _ in range(4)]
opt = torch.optim.SGD([p for r in replicas for p in r.parameters()], lr=0.1)
x = torch.randn(512, 8)
y = x[:, :3].argmax(1)
for epoch in range(10):
    for i in torch.randperm(512).split(64):
        opt.zero_grad()
        for r, part in zip(replicas, i.chunk(4)):
            F.cross_entropy(r(x[part]), y[part]).backward()
        with torch.no_grad():
            for ps in zip(*(r.parameters() for r in replicas)):
                mean = torch.stack([p.grad for p in ps]).mean(0)
                for p in ps:
                    p.grad.copy_(mean)
        opt.step()
assert all(torch.equal(a, b) for a, b in zip(replicas[0].parameters(), replicas[3].parameters()))
