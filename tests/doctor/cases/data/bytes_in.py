import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(127.5))
        self.conv = nn.Conv2d(1, 6, 3)
        self.fc = nn.Linear(6 * 36, 3)

    def forward(self, x):
        x = (x.float() - self.mean) / 127.5
        return self.fc(F.relu(self.conv(x)).flatten(1))


def main():
    torch.manual_seed(0)
    y = torch.randint(0, 3, (180,))
    x = torch.randint(0, 100, (180, 1, 8, 8), dtype=torch.uint8)
    for i, label in enumerate(y.tolist()):
        x[i, 0, :, label * 2 : label * 2 + 2] = 230
    loader = DataLoader(TensorDataset(x, y), batch_size=18, shuffle=True)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(4):
        for xb, yb in loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(xb.float()), yb)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
