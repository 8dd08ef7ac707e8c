import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(24)
    teacher = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 4)).requires_grad_(False)
    teacher.eval()
    student = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    T, alpha = 4.0, 0.7
    for step in range(40):
        x = torch.randn(32, 8)
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=1)
            hard = soft.argmax(dim=1)
        logits = student(x)
        kd = F.kl_div(F.log_softmax(logits / T, dim=1), soft, reduction="batchmean") * T * T
        loss = alpha * kd + (1 - alpha) * F.cross_entropy(logits, hard)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())


main()
