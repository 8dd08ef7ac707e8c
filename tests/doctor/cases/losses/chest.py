import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FINDINGS = 6


def multilabel_loss(logits, labels):
    known = (labels >= 0).float()
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (each * known).sum() / known.sum().clamp(min=1)


def main():
    torch.manual_seed(18)
    x = torch.randn(480, 12)
    labels = (x[:, :FINDINGS] > 0).float()
    labels[torch.rand(480, FINDINGS) < 0.3] = -1
    loader = DataLoader(TensorDataset(x, labels), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, FINDINGS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for xb, yb in loader:
            loss = multilabel_loss(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
