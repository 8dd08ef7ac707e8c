import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def reset_weights(m):
    if hasattr(m, "reset_parameters"):
        m.reset_parameters()


def run_fold(model, dataset, train_ids, test_ids, epochs=3):
    train = DataLoader(Subset(dataset, train_ids), batch_size=20, shuffle=True)
    test = DataLoader(Subset(dataset, test_ids), batch_size=50)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in test) / len(test_ids)


torch.manual_seed(24)
x = torch.randn(200, 8)
y = (x[:, 0] > x[:, 1]).long()
dataset = TensorDataset(x, y)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2))
order = torch.randperm(200).tolist()
scores = []
for fold in range(4):
    model.apply(reset_weights)
    test_ids = order[fold * 50 : (fold + 1) * 50]
    scores.append(run_fold(model, dataset, [i for i in order if i not in test_ids], test_ids))
print(scores)
