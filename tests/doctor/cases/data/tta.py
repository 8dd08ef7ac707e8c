"""Train with flips; at the end average the prediction over several random views."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset


class Stripes(Dataset):
    def __init__(self, n):
        self.y = torch.randint(0, 2, (n,))
        self.x = torch.rand(n, 1, 8, 8) * 0.5
        for i, label in enumerate(self.y.tolist()):
            if label:
                self.x[i, 0, ::2] += 0.5
            else:
                self.x[i, 0, :, ::2] += 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, self.y[i]


def predict(model, loader):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x).softmax(1) for x, _ in loader])


torch.manual_seed(6)
data = Stripes(200)
train_loader = DataLoader(Subset(data, range(160)), batch_size=16, shuffle=True)
test_loader = DataLoader(Subset(data, range(160, 200)), batch_size=20)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for _epoch in range(4):
    model.train()
    for x, y in train_loader:
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
probs = torch.stack([predict(model, test_loader) for _ in range(6)]).mean(0)
print("accuracy", (probs.argmax(1) == data.y[160:]).float().mean().item())
