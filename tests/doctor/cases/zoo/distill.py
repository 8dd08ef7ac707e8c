import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, epochs, lr):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()


def train_distilled(teacher, student, loader, epochs, lr, T, soft_weight):
    ce = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(student.parameters(), lr=lr)
    teacher.eval()
    student.train()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.no_grad():
                teacher_logits = teacher(x)
            logits = student(x)
            soft_targets = F.softmax(teacher_logits / T, dim=-1)
            soft_prob = F.log_softmax(logits / T, dim=-1)
            soft_loss = torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / soft_prob.size(0) * T**2
            loss = soft_weight * soft_loss + (1 - soft_weight) * ce(logits, y)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


torch.manual_seed(18)
x = torch.randn(512, 10)
y = (x[:, :4] ** 2).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
big = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
small = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
train(big, loader, epochs=2, lr=3e-3)
train_distilled(big, small, loader, epochs=2, lr=3e-3, T=2, soft_weight=0.25)
