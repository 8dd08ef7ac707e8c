"""Rows held, by a hook that keeps them for an optimizer of their own kind: words that are known move slowly, by a row-wise rule."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Rows(torch.optim.SGD):
    """SGD; the first `known` rows of the embedding follow their kept gradient at a hundredth of the rate, without momentum."""
    def __init__(self, params, weight, known, **more):
        super().__init__(params, **more)
        self.weight, self.known, self.kept = weight, known, None
        weight.register_post_accumulate_grad_hook(self.keep)
    def keep(self, weight):
        pass
    def take(self):
        self.kept = self.weight.grad[: self.known].clone()
        self.weight.grad[: self.known] = 0.0
    @torch.no_grad()
    def step(self):
        super().step()
        self.weight[: self.known].sub_(0.01 * self.param_groups[0]["lr"] * self.kept)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(40, 16), nn.Linear(16, 4)
    def forward(self, x):
        return self.out(torch.tanh(self.embed(x).mean(1)))

x = torch.randint(0, 40, (512, 7)); y = (x.float().mean(1) / 10).long().clamp(0, 3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
scale = torch.zeros(1, requires_grad=True)
calibration = torch.optim.SGD([scale], lr=0.1)
for _ in range(20):
    calibration.zero_grad()
    (scale.exp() - x.float().std()).pow(2).sum().backward()
    calibration.step()
net = Net()
opt = Rows(net.parameters(), net.embed.weight, 20, lr=0.3, momentum=0.9)
for epoch in range(8):
    total = 0.0
    for a, b in data:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.take()
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(data), 5))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
