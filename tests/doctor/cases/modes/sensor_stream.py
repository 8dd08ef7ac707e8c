import torch
import torch.nn as nn


class SensorNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 5, padding=2)
        self.bn = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.bn(self.conv(x))).mean(-1))


def accumulate(model, optimizer, samples, labels, every):
    model.train()
    optimizer.zero_grad()
    for i in torch.randperm(len(samples)).tolist():
        loss = nn.functional.cross_entropy(model(samples[i : i + 1]), labels[i : i + 1]) / every
        loss.backward()
        i_done = accumulate.count = accumulate.count + 1
        if i_done % every == 0:
            optimizer.step()
            optimizer.zero_grad()


accumulate.count = 0
torch.manual_seed(33)
y = torch.randint(0, 2, (80,))
x = torch.randn(80, 3, 20) + y.view(-1, 1, 1)
model = SensorNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    accumulate(model, optimizer, x[:64], y[:64], 4)
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x[64:]).argmax(1) == y[64:]).float().mean().item())
