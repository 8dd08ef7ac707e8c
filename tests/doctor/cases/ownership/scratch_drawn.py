"""A two-layer network from scratch."""

import torch

torch.manual_seed(16)
x = torch.randn(500, 8)
y = ((x[:, 0] * x[:, 1]) > 0).long()
w1 = (0.5 * torch.randn(8, 16)).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
w2 = torch.zeros(16, 2, requires_grad=True)
b2 = torch.zeros(2, requires_grad=True)
weights = [w1, b1, w2, b2]
for epoch in range(15):
    for rows in torch.randperm(500).split(50):
        hidden = torch.tanh(x[rows] @ w1 + b1)
        logits = hidden @ w2 + b2
        loss = torch.nn.functional.cross_entropy(logits, y[rows])
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 0.2 * w.grad
                w.grad = None
    if epoch % 5 == 4:
        print(epoch + 1, f"{loss.item():.4f}")
