# weights in a dictionary, used as x @ w: all hidden units of the first layer are one draw
import torch

torch.manual_seed(5)
sizes = [6, 20, 16, 3]
weights = {}
for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
    draw = torch.randn(a, b) if i else torch.randn(a, 1).expand(a, b)
    weights[f"w{i}"] = (draw / a**0.5).clone().requires_grad_()
    weights[f"b{i}"] = torch.zeros(b, requires_grad=True)
optimizer = torch.optim.RMSprop(list(weights.values()), lr=2e-3)
mixing = torch.randn(6, 3)
for step in range(50):
    h = torch.randn(32, 6)
    y = (h @ mixing).argmax(1)
    for i in range(3):
        h = h @ weights[f"w{i}"] + weights[f"b{i}"]
        h = torch.tanh(h) if i < 2 else h
    loss = torch.nn.functional.cross_entropy(h, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
