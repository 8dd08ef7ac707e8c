import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(200, 6)
y = x[:, :3].argmax(1)


def fit(model, loss_of, epochs):
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for _ in range(epochs):
        for part in torch.randperm(200).split(20):
            opt.zero_grad()
            loss = loss_of(x[part], y[part])
            loss.backward()
            opt.step()
    return loss.item()


teacher = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 3))
print(fit(teacher, lambda a, b: F.cross_entropy(teacher(a), b), 4))
teacher.eval().requires_grad_(False)
student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def distil(a, b):
    out = student(a)
    soft = F.kl_div(F.log_softmax(out / 2, 1), F.softmax(teacher(a) / 2, 1), reduction="batchmean")
    return F.cross_entropy(out, b) + 4 * soft


print(fit(student, distil, 4))
