import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


def evaluate(model, loader):
    was = model.training
    model.eval()
    loss = hits = n = 0
    with torch.inference_mode():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    model.train(was)
    return loss / n, hits / n


def main(seed=0, epochs=4):
    torch.manual_seed(seed)
    x = torch.randn(360, 12)
    y = (x[:, :3].sum(1) > x[:, 3:6].sum(1)).long()
    train_set, valid_set = random_split(TensorDataset(x, y), [300, 60])
    train_loader = DataLoader(train_set, batch_size=30, shuffle=True)
    train_eval_loader = DataLoader(train_set, batch_size=100)
    valid_loader = DataLoader(valid_set, batch_size=60)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, "train", evaluate(model, train_eval_loader), "valid", evaluate(model, valid_loader))


main()
