"""Local SGD with two workers in one process: their mean goes into worker 0, which is then sent to all."""

import copy, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
first = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
workers = [first, copy.deepcopy(first)]
opts = [torch.optim.SGD(w.parameters(), 0.1) for w in workers]
x = torch.randn(512, 8)
y = x[:, :3].argmax(1)
for rounds in range(12):
    for w, opt, mine in zip(workers, opts, (range(0, 256), range(256, 512))):
        rows = torch.tensor(mine)[torch.randperm(256)]
        for i in rows.split(32):
            opt.zero_grad()
            F.cross_entropy(w(x[i]), y[i]).backward()
            opt.step()
    with torch.no_grad():
        for ps in zip(*(w.parameters() for w in workers)):
            ps[0].copy_(torch.stack(list(ps)).mean(0))
    for w in workers:
        for p, q in zip(w.parameters(), workers[0].parameters()):
            p.data.copy_(q.data)
