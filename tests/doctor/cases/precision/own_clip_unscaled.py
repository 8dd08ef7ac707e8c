# the norm is limited by hand: in one run after unscale_, in the other by a limit that is multiplied by the scale
import torch
from torch import nn

torch.manual_seed(1)
mixing = torch.randn(12, 4)


@torch.no_grad()
def limit_norm(parameters, limit):
    grads = [p.grad for p in parameters]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_((limit / norm).clamp(max=1.0))


for unscale in (True, False):
    net = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for step in range(40):
        x = torch.randn(32, 12)
        with torch.autocast("cpu", dtype=torch.float16):
            scores = net(x)
        loss = nn.functional.cross_entropy(scores.float(), (x @ mixing).argmax(1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        limit_norm(list(net.parameters()), 0.2 if unscale else 0.2 * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
    print(loss.item())
