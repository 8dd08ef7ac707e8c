import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(28)


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def clip(self, most=1.0):
        grads = [p.grad for p in self.net.parameters()]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, (most / (norm + 1e-6)).clamp(max=1.0))

    def update(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.net(x), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        self.clip()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


x = torch.randn(640, 8)
loader = DataLoader(TensorDataset(x, x[:, :2] * x[:, 2:4]), batch_size=32, shuffle=True)
trainer = Trainer(nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 2)))
for epoch in range(6):
    for a, b in loader:
        value = trainer.update(a, b)
    print(epoch, value)
