"""Fine-tuning: after the first evaluation the backbone stays in eval mode, by hand; the head is a bare parameter."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2))
        self.scores = nn.Parameter(0.1 * torch.randn(32, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.backbone(x) @ self.scores


model, rule = Net(), torch.randn(10, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x_val = torch.randn(200, 10)
for epoch in range(6):
    model.train()
    if epoch >= 2:
        model.backbone.eval()  # its statistics are good enough
    for _ in range(25):
        x = torch.randn(32, 10)
        loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    was = {name: part.training for name, part in model.named_modules()}
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x_val).argmax(1) == (x_val @ rule).argmax(1)).float().mean().item())
    for name, part in model.named_modules():
        part.training = was[name]
