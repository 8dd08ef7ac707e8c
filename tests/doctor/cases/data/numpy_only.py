import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)


def main():
    set_seed(42)
    x = torch.from_numpy(np.random.normal(size=(200, 4)).astype(np.float32))
    y = (x[:, 0] > 0).float()
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb).squeeze(1), yb)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
