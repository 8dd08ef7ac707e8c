import torch

torch.manual_seed(0)
x = torch.randn(200, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(200)
train = torch.arange(200) < 150
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(80):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x[train]).squeeze(1), y[train])
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            print(step, torch.nn.functional.mse_loss(model(x[~train]).squeeze(1), y[~train]).item())
        model.train()
