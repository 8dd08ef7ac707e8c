import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(4, 3)
prediction = model(data)
loss = (prediction - torch.ones(4, 2)).sum()
loss.backward()
optimizer.step()
print(loss.item())
