"""An encoder, a matrix and a decoder, trained together."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.GRU(4, 8, batch_first=True)
decoder = nn.Linear(8, 4)
between = nn.Parameter(torch.randn(8, 8) * 0.1)
optimizer = torch.optim.SGD(list(encoder.parameters()) + list(decoder.parameters()), lr=0.05)


def train_step(x):
    code = encoder(x)[1][0] @ between
    loss = nn.functional.mse_loss(decoder(code), x[:, -1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for step in range(40):
    print(train_step(torch.randn(8, 6, 4)))
