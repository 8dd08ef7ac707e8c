import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Triplets(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.by_class = {c: (y == c).nonzero().flatten() for c in y.unique().tolist()}

    def __len__(self):
        return len(self.x)

    def pick(self, c):
        rows = self.by_class[c]
        return self.x[rows[torch.randint(len(rows), (1,)).item()]]

    def __getitem__(self, i):
        c = self.y[i].item()
        other = (c + 1 + torch.randint(0, len(self.by_class) - 1, (1,)).item()) % len(self.by_class)
        return self.x[i], self.pick(c), self.pick(other)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))

    def forward(self, *views):
        return [nn.functional.normalize(self.embed(v), dim=1) for v in views]


torch.manual_seed(22)
y = torch.randint(0, 4, (240,))
x = 0.4 * torch.randn(4, 8)[y] + 0.6 * torch.randn(240, 8)
loader = DataLoader(Triplets(x, y), batch_size=16, shuffle=True)
model = Siamese()
criterion = nn.TripletMarginLoss(margin=0.2)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    for anchor, positive, negative in loader:
        loss = criterion(*model(anchor, positive, negative))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
