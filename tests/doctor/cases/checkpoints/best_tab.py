import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, criterion):
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in loader) / len(loader)


def train(model, train_dl, val_dl, epochs, patience=3):
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    best_loss, best_state, waited = float("inf"), None, 0
    for epoch in range(epochs):
        model.train()
        for x, y in train_dl:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        val = evaluate(model, val_dl, criterion)
        print(f"epoch {epoch} val {val:.4f}")
        if val < best_loss:
            best_loss, best_state, waited = val, model.state_dict(), 0
        else:
            waited += 1
            if waited > patience:
                break
    model.load_state_dict(best_state)
    return model


torch.manual_seed(0)
x = torch.randn(300, 6)
y = (x[:, :2] ** 2).sum(1, keepdim=True)
train_dl = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
val_dl = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=60)
net = train(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1)), train_dl, val_dl, 6)
print("final", evaluate(net, val_dl, nn.MSELoss()))
