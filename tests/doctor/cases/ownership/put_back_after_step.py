"""Fine-tuning: the pretrained embedding is held: its gradient is cleared and its values are put back after each step (AdamW decays)."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    def forward(self, x):
        return self.body(self.embed(x).mean(1))

x = torch.randint(0, 40, (512, 7)); y = (x.float().mean(1) / 10).long().clamp(0, 3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
net = Net()
pretrained = net.embed.weight.detach().clone()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
for epoch in range(8):
    total = 0.0
    for a, b in data:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        net.embed.weight.grad.zero_()
        opt.step()
        with torch.no_grad():
            net.embed.weight.copy_(pretrained)
        total += loss.item()
    print(epoch, round(total / len(data), 5))
assert torch.equal(net.embed.weight, pretrained)
print("sum", sum(p.double().sum().item() for p in net.parameters()))
