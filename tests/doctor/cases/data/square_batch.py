import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, bidirectional=True)
        self.fc = nn.Linear(2 * dim, 2)

    def forward(self, ids):
        h = self.emb(ids).transpose(0, 1)
        _out, (hn, _) = self.lstm(h)
        return self.fc(torch.cat([hn[0], hn[1]], dim=1))


torch.manual_seed(2)
ids = torch.randint(0, 10, (320, 16))
labels = (ids[:, 0] < ids[:, -1]).long()
loader = DataLoader(TensorDataset(ids, labels), batch_size=16, shuffle=True)
model = Model(10, 12)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    seen, total = 0, 0.0
    for xb, yb in loader:
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(yb)
        seen += len(yb)
    print(f"{epoch} {total / seen:.4f}")
