"""Autoencoder with the decoder as the transpose of the encoder."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(nn.Module):
    def __init__(self, inputs, code):
        super().__init__()
        self.encode = nn.Linear(inputs, code)
        self.decode = nn.Linear(code, inputs)
        self.tie()

    def tie(self):
        with torch.no_grad():
            self.decode.weight = nn.Parameter(self.encode.weight.t().clone())

    def forward(self, x):
        return self.decode(torch.tanh(self.encode(x)))


def main():
    torch.manual_seed(0)
    z = torch.randn(240, 3)
    x = torch.tanh(z @ torch.randn(3, 12))
    loader = DataLoader(TensorDataset(x), batch_size=24, shuffle=True)
    model = AutoEncoder(12, 4)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(5):
        for (xb,) in loader:
            loss = nn.functional.mse_loss(model(xb), xb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
