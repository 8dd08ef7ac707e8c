import torch
from torch import nn

torch.manual_seed(31)
w1 = (torch.randn(8, 32) * 0.3).requires_grad_()
w2 = (torch.randn(32, 8) * 0.2).requires_grad_()
opt = torch.optim.Adam([w1, w2], lr=2e-3)
log = {"fit": [], "sparse": []}
for step in range(200):
    x = torch.randn(64, 8)
    code = torch.relu(x @ w1)
    fit = ((code @ w2 - x) ** 2).mean()
    sparse = code.abs().mean()
    loss = fit + 0.01 * sparse
    opt.zero_grad()
    loss.backward()
    opt.step()
    log["fit"].append(fit)
    log["sparse"].append(sparse)
print(sum(log["fit"][-10:]) / 10)
