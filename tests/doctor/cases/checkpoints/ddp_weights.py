import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Wrapped(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


def network():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))


def fit(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(5)
    x = torch.randn(240, 8)
    loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=24, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.pth")
        model = Wrapped(network())
        print("pretrain", fit(model, loader, 2))
        torch.save({"state_dict": model.state_dict()}, path)
        model = network()
        checkpoint = torch.load(path, map_location="cpu")
        model.load_state_dict(checkpoint["state_dict"], strict=False)
        print("finetune", fit(model, loader, 2))
