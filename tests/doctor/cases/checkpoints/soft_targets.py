import copy, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 5)
y = (x[:, 0] > 0).long()
ds = TensorDataset(x[:180], y[:180])
tr = DataLoader(ds, batch_size=20, shuffle=True)
cal = DataLoader(TensorDataset(torch.randn(120, 5)), batch_size=60)
m = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
o = torch.optim.Adam(m.parameters(), lr=1e-2)
tgt = copy.deepcopy(m)
sd_t = tgt.state_dict()
for e in range(3):
    m.train()
    for a, b in tr:
        o.zero_grad()
        nn.functional.cross_entropy(m(a), b).backward()
        o.step()
        s = m.state_dict()
        for k, v in sd_t.items():
            if v.is_floating_point():
                v.lerp_(s[k], 0.1)
        tgt.load_state_dict(sd_t)
    m.train()
    with torch.no_grad():
        for (a,) in cal:
            m(a)
    m.eval()
    with torch.no_grad():
        print((m(x[180:]).argmax(1) == y[180:]).float().mean())
