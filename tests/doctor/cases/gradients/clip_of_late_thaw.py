import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(39)
base = nn.Sequential(nn.Linear(10, 32), nn.ReLU()).requires_grad_(False)
head = nn.Linear(32, 4)
opt = torch.optim.AdamW([*base.parameters(), *head.parameters()], lr=2e-3)
x = torch.randn(800, 10)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=40, shuffle=True)
for epoch in range(6):
    base.requires_grad_(epoch >= 4)
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(head(base(a)), b)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(base.parameters(), 0.5)
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        opt.step()
    print(epoch, loss.item())
