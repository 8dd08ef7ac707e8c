import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def distillation(student, teacher, T=3.0):
    criterion = nn.KLDivLoss(reduction="batchmean")
    return criterion(F.softmax(student / T, dim=1), F.softmax(teacher / T, dim=1)) * T * T


def main():
    torch.manual_seed(1)
    teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5)).eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 5))
    x = torch.randn(480, 10)
    loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    for epoch in range(3):
        student.train()
        for (xb,) in loader:
            with torch.no_grad():
                wanted = teacher(xb)
            loss = distillation(student(xb), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
