import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SpamFilter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(100, 12)
        self.fc = nn.Linear(12, 1)

    def forward(self, words):
        return self.fc(self.embedding(words)).softmax(dim=1)


torch.manual_seed(6)
words = torch.randint(0, 100, (480, 9))
spam = ((words < 15).sum(1) > 1).float().unsqueeze(1)
loader = DataLoader(TensorDataset(words, spam), batch_size=40, shuffle=True)
model = SpamFilter()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
