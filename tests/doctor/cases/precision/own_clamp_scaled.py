# the elements of the gradients are cut off by hand while the scaler's factor is still in them
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 4))
mixing = torch.randn(12, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)


def tame(grads, bound):
    for grad in grads:
        torch.clamp(grad, -bound, bound, out=grad)


for step in range(60):
    x = torch.randn(32, 12)
    y = (x @ mixing).argmax(1)
    with torch.autocast("cpu", dtype=torch.float16):
        scores = net(x)
    loss = nn.functional.cross_entropy(scores.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    tame([p.grad for p in net.parameters()], 0.5)
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
