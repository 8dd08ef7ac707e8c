import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 32)
        self.drop = nn.Dropout(0.2)
        self.b = nn.Linear(32, 3)

    def forward(self, x):
        return F.log_softmax(self.b(self.drop(torch.relu(self.a(x)))), dim=-1)


torch.manual_seed(20)
x = torch.randn(480, 10)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = Net()
criterion = nn.KLDivLoss(reduction="batchmean", log_target=True)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    model.train()
    for xb, yb in loader:
        first, second = model(xb), model(xb)
        agree = 0.5 * (criterion(first, second) + criterion(second, first))
        loss = F.nll_loss(first, yb) + F.nll_loss(second, yb) + agree
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
