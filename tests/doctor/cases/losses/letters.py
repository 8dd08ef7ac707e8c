import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class LetterNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 40)
        self.output = nn.Linear(40, 6)

    def forward(self, x):
        return self.output(torch.relu(self.hidden(x)))


def fit(model, loader, epochs):
    criterion = nn.NLLLoss()
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        running_loss = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(f"[{epoch + 1}] loss: {running_loss / len(loader):.3f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    labels = torch.randint(0, 6, (480,))
    inputs = torch.randn(480, 16)
    inputs[torch.arange(480), labels] += 2
    fit(LetterNet(), DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True), epochs=3)
