import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def run_stage(model, loader, lr, epochs):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return loss.item()


torch.manual_seed(25)
x = torch.randn(200, 10)
y = (x[:, :4].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 2))
set_trainable(model, False)
for depth, (layer, lr) in enumerate([(model[4], 3e-3), (model[2], 1e-3), (model[0], 3e-4)]):
    set_trainable(layer, True)
    print(depth, run_stage(model, loader, lr, epochs=2))
