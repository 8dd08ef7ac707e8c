import torch

torch.manual_seed(62)
w = (torch.randn(10, 4) * 0.1).requires_grad_()
for step in range(120):
    x = torch.randn(64, 10)
    y = x[:, :4].argmax(1)
    p = (x @ w).exp() / (x @ w).exp().sum(1, keepdim=True)
    p = p * (p > 0.2)
    loss = -(p[torch.arange(64), y]).log().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        w.grad.zero_()
    if step % 30 == 0:
        print(step, loss.item())
