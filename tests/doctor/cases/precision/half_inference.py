"""Full precision training; half precision only where nothing is learned."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)).eval().requires_grad_(False)
student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
x = torch.randn(160, 6)
loader = DataLoader(TensorDataset(x), batch_size=16, shuffle=True)
test = torch.randn(40, 6)
for epoch in range(3):
    student.train()
    for (xb,) in loader:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            wanted = teacher(xb).float()
        optimizer.zero_grad()
        loss = F.kl_div(F.log_softmax(student(xb), 1), F.softmax(wanted, 1), reduction="batchmean")
        loss.backward()
        optimizer.step()
    student.eval()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
        agree = (student(test).argmax(1) == teacher(test).argmax(1)).float().mean().item()
    print(epoch, loss.item(), agree)
