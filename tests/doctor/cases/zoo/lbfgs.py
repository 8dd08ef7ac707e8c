import torch
from torch import nn

torch.manual_seed(5)
x = torch.linspace(-2, 2, 100).unsqueeze(1)
y = torch.sin(2 * x) + 0.05 * torch.randn_like(x)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=10, line_search_fn="strong_wolfe")
for step in range(12):

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if step % 4 == 0:
        print(step, loss.item())
with torch.no_grad():
    print("final", criterion(model(x), y).item())
