import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WideAndDeep(nn.Module):
    def __init__(self, n_users, n_items, dim=8):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim)
        self.deep = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))
        self.out = nn.Sigmoid()

    def forward(self, u, i):
        pair = torch.cat([self.users(u), self.items(i)], dim=1)
        return self.out(self.deep(pair)).view(-1)


def main():
    torch.manual_seed(3)
    users = torch.randint(0, 30, (800,))
    items = torch.randint(0, 40, (800,))
    clicks = ((users + items) % 3 == 0).float()
    loader = DataLoader(TensorDataset(users, items, clicks), batch_size=50, shuffle=True)
    model = WideAndDeep(30, 40)
    criterion = nn.BCELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        running = 0.0
        for u, i, c in loader:
            optimizer.zero_grad()
            loss = criterion(model(u, i), c)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(loader):.4f}")


main()
