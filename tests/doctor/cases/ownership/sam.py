import torch
import torch.nn as nn
import torch.nn.functional as F


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)

    @torch.no_grad()
    def first_step(self):
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
        for g in self.param_groups:
            for p in g["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad, alpha=g["rho"] / (norm.item() + 1e-12))

    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for p in g["params"]:
                p.data = self.state[p]["old"]
        self.base.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
x = torch.randn(160, 5)
y = (x[:, 0] > 0).long()
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.first_step()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.second_step()
        optimizer.zero_grad()
    print(epoch, loss.item())
