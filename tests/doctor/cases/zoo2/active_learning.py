import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
X = torch.randn(500, 8)
Y = (X[:, 0] > 0).long()
ds = TensorDataset(X[:400], Y[:400])
te = TensorDataset(X[400:], Y[400:])
L = list(range(40))
for r in range(4):
    m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    o = torch.optim.Adam(m.parameters(), 1e-2)
    m.train()
    for e in range(4):
        for x, y in DataLoader(Subset(ds, L), 16, shuffle=True):
            o.zero_grad()
            F.cross_entropy(m(x), y).backward()
            o.step()
    m.eval()
    U = [i for i in range(400) if i not in L]
    with torch.no_grad():
        p = torch.cat([m(x).softmax(1) for x, _ in DataLoader(Subset(ds, U), 64)])
        a = sum((m(x).argmax(1) == y).sum().item() for x, y in DataLoader(te, 50)) / 100
    L += [U[i] for i in (-(p * p.log()).sum(1)).topk(30).indices.tolist()]
    print(r, a, len(L))
