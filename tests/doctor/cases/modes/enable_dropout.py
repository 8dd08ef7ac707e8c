import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 24), nn.Linear(24, 2)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        h = F.dropout(torch.relu(self.fc1(x)), 0.1, self.training)
        return self.fc2(self.drop(h))


def enable_dropout(model):
    for m in model.modules():
        if m.__class__.__name__.startswith("Dropout"):
            m.train()


torch.manual_seed(18)
x = torch.randn(240, 6)
y = (x[:, 0] + x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
model = Encoder()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    for a, b in loader:
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        plain = (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
        enable_dropout(model)
        probs = torch.stack([model(x[200:]).softmax(1) for _ in range(10)])
    print(epoch, plain, probs.var(0).sum().item())
