"""Equal averaging of weights in a dictionary, evaluated through functional_call with the live buffers of the last weights."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
mean, seen = {k: v.detach().clone() for k, v in model.named_parameters()}, 0
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(8):
    model.train()
    for idx in torch.randperm(1024).split(32):
        opt.zero_grad()
        F.cross_entropy(model(X[idx]), Y[idx]).backward()
        opt.step()
    if epoch >= 2:
        seen += 1
        for k, v in model.named_parameters():
            mean[k] += (v.detach() - mean[k]) / seen
        model.eval()
        with torch.no_grad():
            print((functional_call(model, mean, (X[1024:],)).argmax(1) == Y[1024:]).float().mean())
