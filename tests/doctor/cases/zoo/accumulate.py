import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(accumulate=4, epochs=3):
    torch.manual_seed(0)
    x = torch.randn(330, 10)
    y = x[:, :3].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        pending = []
        for i, batch in enumerate(loader):
            pending.append(batch)
            if len(pending) < accumulate and i + 1 < len(loader):
                continue
            total = sum(len(t) for _, t in pending)
            optimizer.zero_grad()
            value = 0.0
            for xb, yb in pending:
                loss = F.cross_entropy(model(xb), yb, reduction="sum") / total
                loss.backward()
                value += loss.item()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            pending = []
        print(epoch, value)


main()
