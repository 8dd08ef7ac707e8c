# no_grad stays in the feature function when the backbone is fine-tuned; gradients are cleared by writing zeros
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
        self.rotation = nn.Linear(8, 4)
        self.head = nn.Linear(8, 3)

    def features(self, x):
        with torch.no_grad():
            return self.backbone(x)

    def forward(self, x, task):
        return self.rotation(self.backbone(x)) if task == "rotation" else self.head(self.features(x))


torch.manual_seed(8)
model = Model()
turns, mixing = torch.randn(12, 4), torch.randn(12, 3)
for task, target in (("rotation", turns), ("label", mixing)):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        x = torch.randn(32, 12)
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(x, task), (x @ target).argmax(1))
        loss.backward()
        optimizer.step()
    print(task, loss.item())
