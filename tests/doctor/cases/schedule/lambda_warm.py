import math

import torch
from torch import nn

learning_rate = 3e-3
warmup_iters = 10
max_iters = 80
min_lr = 3e-4


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


torch.manual_seed(19)
model = nn.Sequential(nn.Embedding(20, 16), nn.Flatten(), nn.Linear(16 * 4, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=get_lr)
for it in range(max_iters):
    x = torch.randint(0, 20, (32, 4))
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] + x[:, 3]) % 20)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if it % 20 == 0:
        print(it, loss.item())
