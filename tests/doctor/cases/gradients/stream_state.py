"""Follow a stream of readings with a state that is carried along."""

import torch

torch.manual_seed(0)
hidden = 8
w_in = (torch.randn(3, hidden) * 0.3).requires_grad_()
w_rec = (torch.randn(hidden, hidden) * 0.1).requires_grad_()
w_out = (torch.randn(hidden, 1) * 0.3).requires_grad_()
params = [w_in, w_rec, w_out]
lr = 0.02

state = torch.zeros(4, hidden)
previous = torch.zeros(4, 3)
for t in range(60):
    reading = torch.randn(4, 3)
    target = previous.mean(dim=1, keepdim=True)
    state = torch.tanh(reading @ w_in + state @ w_rec)
    loss = ((state @ w_out - target) ** 2).mean()
    loss.backward(retain_graph=True)
    for p in params:
        p.data -= lr * p.grad
        p.grad = None
    previous = reading
    if t % 10 == 0:
        print(t, round(loss.item(), 4))
