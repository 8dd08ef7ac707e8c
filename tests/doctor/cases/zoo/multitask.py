import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"kind": nn.Linear(32, 4), "size": nn.Linear(32, 1)})
        self.log_var = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in self.heads})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


torch.manual_seed(24)
x = torch.randn(480, 10)
kind, size = x[:, :4].argmax(1), x[:, 4] - x[:, 5]
loader = DataLoader(TensorDataset(x, kind, size), batch_size=32, shuffle=True)
model = MultiTask()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(3):
    model.train()
    for xb, kb, sb in loader:
        out = model(xb)
        losses = {"kind": F.cross_entropy(out["kind"], kb), "size": F.mse_loss(out["size"].squeeze(1), sb)}
        loss = sum(torch.exp(-model.log_var[k]) * v + 0.5 * model.log_var[k] for k, v in losses.items())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, {k: round(v.item(), 4) for k, v in losses.items()})
