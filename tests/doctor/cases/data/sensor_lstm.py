import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 2, (n,), generator=g)
        t = torch.arange(20).float()
        freq = 0.3 + 0.3 * self.y.float()
        phase = torch.rand(n, generator=g) * 6.28
        noise = 0.1 * torch.randn(n, 20, 3, generator=g)
        self.x = torch.sin(freq[:, None] * t + phase[:, None]).unsqueeze(-1) + noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SequenceClassifier(nn.Module):
    def __init__(self, input_size=3, hidden_size=24, num_layers=1, num_classes=2):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])


torch.manual_seed(3)
train_loader = DataLoader(Waves(240, 0), batch_size=24, shuffle=True)
val_loader = DataLoader(Waves(60, 1), batch_size=30)
model = SequenceClassifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

for epoch in range(4):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            hits += (model(x).argmax(1) == y).sum().item()
    print(f"epoch {epoch + 1}: {hits / 60:.2%}")
