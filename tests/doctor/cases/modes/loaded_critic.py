import io

import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import weight_norm


def build():
    return nn.Sequential(spectral_norm(nn.Linear(5, 16)), nn.ReLU(), weight_norm(nn.Linear(16, 2)))


def fit(model, x, y, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for _ in range(steps):
        rows = torch.randint(0, len(x), (20,))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(31)
x = torch.randn(150, 5)
y = (x[:, 0] > 0).long()
first = build()
print(fit(first, x, y, 30))
blob = io.BytesIO()
torch.save(first.state_dict(), blob)
blob.seek(0)
second = build()
second.load_state_dict(torch.load(blob))
second.eval()
with torch.no_grad():
    print((second(x).argmax(1) == y).float().mean().item())
print(fit(second, x, y, 30))
