import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


def rate(step, d_model=32, warmup=30):
    step = max(step, 1)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def run():
    torch.manual_seed(21)
    model = nn.Sequential(nn.Embedding(12, 32), nn.Linear(32, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = LambdaLR(optimizer, lr_lambda=rate)
    for step in range(40):
        x = torch.randint(0, 12, (16, 6))
        out = model(x)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), ((x * 5) % 12).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


print(run())
