import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        log_p = F.log_softmax(logits, dim=1)
        weighted = (1 - log_p.exp()) ** self.gamma * log_p
        return F.nll_loss(weighted, target)


def main():
    torch.manual_seed(14)
    y = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), 600, replacement=True)
    x = torch.randn(600, 7) + y.unsqueeze(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    model = nn.Sequential(nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 3))
    criterion = FocalLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(3):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
