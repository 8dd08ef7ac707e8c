import torch
import torch.nn.functional as F
from torch import nn


def mixup(x, y, classes, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample()
    order = torch.randperm(len(x))
    onehot = F.one_hot(y, classes).float()
    return lam * x + (1 - lam) * x[order], lam * onehot + (1 - lam) * onehot[order]


def main():
    torch.manual_seed(5)
    teacher_weights = torch.randn(10, 6)
    teacher_weights.requires_grad_(False)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs = torch.randn(640, 10)
    labels = (inputs @ teacher_weights).argmax(1)
    for epoch in range(3):
        order = torch.randperm(len(inputs))
        for chunk in order.split(64):
            x, y = inputs[chunk], labels[chunk]
            mixed, target = mixup(x, y, 6)
            teacher = torch.softmax(mixed @ teacher_weights / 2.0, dim=1)
            logits = model(mixed)
            loss = 0.5 * F.cross_entropy(logits, target) + 0.5 * F.cross_entropy(logits, teacher)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
