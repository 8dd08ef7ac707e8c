"""Self-supervised pairs with a momentum encoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class BYOL(nn.Module):
    def __init__(self, encoder, dim, momentum=0.99):
        super().__init__()
        self.momentum = momentum
        self.online_encoder = encoder
        self.target_encoder = encoder
        self.predictor = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    @torch.no_grad()
    def update_target(self):
        for o, t in zip(self.online_encoder.parameters(), self.target_encoder.parameters(), strict=False):
            t.data = self.momentum * t.data + (1 - self.momentum) * o.data

    def forward(self, a, b):
        p = F.normalize(self.predictor(self.online_encoder(a)), dim=1)
        with torch.no_grad():
            z = F.normalize(self.target_encoder(b), dim=1)
        return 2 - 2 * (p * z).sum(1).mean()


def main():
    torch.manual_seed(3)
    data = torch.randn(200, 10)
    model = BYOL(nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 8)), 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(4):
        model.train()
        for part in torch.randperm(200).split(20):
            x = data[part]
            loss = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update_target()
        print(epoch, loss.item())


main()
