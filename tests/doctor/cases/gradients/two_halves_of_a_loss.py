"""Two tasks on one body, the objective is 0.5 A + 0.5 B; A has one batch more than B, so the last step of an epoch has A only."""
import itertools
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.Tanh())
        self.heads = nn.ModuleList([nn.Linear(32, 1), nn.Linear(32, 1)])
    def forward(self, x, task):
        return self.heads[task](self.body(x))

def loader(rows):
    x = torch.randn(rows, 12)
    y = torch.sin(x @ torch.randn(12, 1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)

tasks = [loader(320), loader(288)]
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(20):
    total = 0.0
    for batches in itertools.zip_longest(*tasks):
        opt.zero_grad()
        for task, batch in enumerate(batches):
            if batch is None:
                continue
            x, y = batch
            loss = 0.5 * nn.functional.mse_loss(net(x, task), y)
            loss.backward()
            total += loss.item()
        opt.step()
    if epoch % 4 == 3:
        print(epoch, round(total, 6))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
