import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.gate = nn.Linear(inputs, inputs)
        self.body = nn.Sequential(nn.Linear(inputs, 24), nn.Tanh(), nn.Linear(24, classes))

    def forward(self, x):
        attention = torch.softmax(self.gate(x), dim=-1)
        return self.body(x * attention)

    @torch.no_grad()
    def predict_proba(self, x):
        return torch.softmax(self(x), dim=1)


def load(n):
    x = torch.randn(n, 13)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long()
    return x, y


if __name__ == "__main__":
    torch.manual_seed(11)
    train_loader = DataLoader(TensorDataset(*load(480)), batch_size=48, shuffle=True)
    xv, yv = load(200)
    model = Classifier(13, 3)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(4):
        model.train()
        for x, y in train_loader:
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        proba = model.predict_proba(xv)
        confidence = proba.max(dim=1).values.mean()
        accuracy = (proba.argmax(dim=1) == yv).float().mean()
        print(f"{epoch} {loss.item():.3f} accuracy {accuracy:.3f} confidence {confidence:.3f}")
