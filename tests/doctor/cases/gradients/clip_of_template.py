import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(39)
template = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
clipped = [p for p in template.parameters() if p.requires_grad]
model = copy.deepcopy(template)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
x = torch.randn(800, 10)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=40, shuffle=True)
for epoch in range(6):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(clipped, 1.0)
        opt.step()
    print(epoch, loss.item())
