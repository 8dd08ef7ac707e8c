import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Logistic(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear = nn.Linear(d, 1)

    def forward(self, x):
        return self.linear(x)


torch.manual_seed(7)
w = torch.randn(8)
X = torch.randn(600, 8)
Y = (X @ w > 0).float()
train_loader = DataLoader(TensorDataset(X[:480], Y[:480]), batch_size=24, shuffle=True)
model = Logistic(8)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(3):
    model.train()
    for xb, yb in train_loader:
        logits = model(xb)
        loss = criterion(logits, yb.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = torch.sigmoid(model(X[480:])) > 0.5
        accuracy = predicted.eq(Y[480:]).float().mean()
    print(f"{epoch}: loss {loss.item():.4f} accuracy {accuracy:.4f}")
