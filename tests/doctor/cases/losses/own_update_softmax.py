import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)

x, y = cls(640); xv, yv = cls(170)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=34)
W1 = (0.3 * torch.randn(8, 24)).requires_grad_(); b1 = torch.zeros(24, requires_grad=True); W2 = (0.3 * torch.randn(24, 4)).requires_grad_()
P = [W1, b1, W2]
def net(a): return torch.relu(a @ W1 + b1) @ W2
def nll(z, t): return -(z - z.logsumexp(1, keepdim=True)).gather(1, t[:, None]).mean()
hist = 0.0; avg = 0.0
for epoch in range(5):
    for i, (a, b) in enumerate(loader):
        loss = nll(net(a).softmax(1), b); gs = torch.autograd.grad(loss, P)
        with torch.no_grad():
            for p, q in zip(P, gs): p -= 0.1 * q
    with torch.no_grad(): print(sum((net(a).argmax(1) == b).sum().item() for a, b in valid) / 170)
