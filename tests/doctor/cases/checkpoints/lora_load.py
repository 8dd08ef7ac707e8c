import io

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


def build():
    torch.manual_seed(8)
    base = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    for i in (0, 2, 4):
        base[i] = LoRALinear(base[i])
    return base


def train(model, x, y, steps=40):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(steps):
        rows = torch.randint(0, len(x), (20,))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
    return loss.item()


model = build()
x = torch.randn(150, 6)
y = (x[:, 0] > 0).long()
print(train(model, x, y))
blob = io.BytesIO()
torch.save({k: v for k, v in model.state_dict().items() if "lora_" in k}, blob)
blob.seek(0)
again = build()
again.load_state_dict(torch.load(blob), strict=False)
print(train(again, x, y))
