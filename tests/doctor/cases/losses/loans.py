import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(33)
features = torch.randn(512, 9)
label = torch.where(features[:, 0] + features[:, 1] > 0, 2.0, 1.0)

model = nn.Sequential(nn.Linear(9, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for rows in torch.randperm(512).split(32):
        out = model(features[rows]).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(out, label[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
