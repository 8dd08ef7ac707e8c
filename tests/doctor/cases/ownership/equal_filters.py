# one filter is drawn and written to every output channel
import torch
from torch import nn


def init(module):
    if isinstance(module, nn.Conv2d):
        kernel = torch.empty(module.weight.shape[1:])
        nn.init.uniform_(kernel, -0.3, 0.3)
        module.weight.data = kernel.repeat(module.out_channels, 1, 1, 1)


torch.manual_seed(4)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.Flatten(),
    nn.Linear(12 * 16, 4),
)
net.apply(init)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
shapes = torch.randn(4, 8, 8)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = (shapes[y] + 0.5 * torch.randn(32, 8, 8)).unsqueeze(1)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
