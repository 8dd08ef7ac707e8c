"""A consistency loss: the target is another pass of the same network, with dropout."""

import torch
from torch import nn

torch.manual_seed(12)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
x = torch.randn(512, 10)
y = x[:, :3].argmax(1)
for step in range(80):
    pick = torch.randint(0, 512, (32,))
    scores = model(x[pick])
    with torch.no_grad():
        target = model(x[pick]).softmax(1)
    loss = nn.functional.cross_entropy(scores, y[pick]) + nn.functional.kl_div(
        scores.log_softmax(1), target, reduction="batchmean"
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
