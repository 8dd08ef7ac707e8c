import torch
import torch.nn.functional as F

torch.manual_seed(0)
w = torch.zeros(6, 3, requires_grad=True)
b = torch.zeros(3, requires_grad=True)
prior = torch.nn.Embedding(10, 3, padding_idx=0)
torch.nn.init.zeros_(prior.weight)
x = torch.randn(200, 6)
k = torch.randint(0, 5, (200,))
y = x[:, :3].argmax(1)
opt = torch.optim.Adam([w, b, *prior.parameters()], lr=0.02)
for epoch in range(4):
    for part in torch.randperm(200).split(20):
        loss = F.cross_entropy(x[part] @ w + b + prior(k[part]), y[part])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
