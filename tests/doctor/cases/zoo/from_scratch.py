import torch

torch.manual_seed(16)
n, d = 512, 4
X = torch.randn(n, d)
true_w = torch.tensor([2.0, -3.4, 0.5, 1.0])
Y = X @ true_w + 4.2 + 0.01 * torch.randn(n)

w = torch.normal(0, 0.01, size=(d,), requires_grad=True)
b = torch.zeros(1, requires_grad=True)


def data_iter(batch_size):
    order = torch.randperm(n)
    for i in range(0, n, batch_size):
        rows = order[i : i + batch_size]
        yield X[rows], Y[rows]


def sgd(params, lr):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad
            param.grad.zero_()


for epoch in range(3):
    for xb, yb in data_iter(32):
        loss = ((xb @ w + b - yb) ** 2 / 2).mean()
        loss.backward()
        sgd([w, b], lr=0.1)
    with torch.no_grad():
        print(epoch, ((X @ w + b - Y) ** 2 / 2).mean().item())
