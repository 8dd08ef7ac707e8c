import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(42)
num_tags = 8
W = torch.randn(16, num_tags)
X = torch.randn(512, 16)
Y = ((X @ W) > 2.0).float()
pos_weight = (len(Y) - Y.sum(0)) / Y.sum(0)

backbone = nn.Sequential(nn.Linear(16, 40), nn.GELU())
head = nn.Sequential(nn.Linear(40, num_tags), nn.Sigmoid())
params = list(backbone.parameters()) + list(head.parameters())
optimizer = torch.optim.AdamW(params, lr=2e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)

for epoch in range(4):
    perm = torch.randperm(len(X))
    for i in range(0, len(X), 32):
        idx = perm[i : i + 32]
        pred = head(backbone(X[idx]))
        loss = F.binary_cross_entropy_with_logits(pred, Y[idx], pos_weight=pos_weight)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
    scheduler.step()
    print(f"{epoch}: {loss.item():.4f}")
