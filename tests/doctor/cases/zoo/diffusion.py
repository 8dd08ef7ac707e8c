import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(nn.Module):
    def __init__(self, steps=20):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.net = nn.Sequential(nn.Linear(2 + 16, 48), nn.SiLU(), nn.Linear(48, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


steps = 20
betas = torch.linspace(1e-3, 0.2, steps)
alpha_bar = torch.cumprod(1 - betas, 0)


@torch.no_grad()
def sample(model, n):
    model.eval()
    x = torch.randn(n, 2)
    for t in reversed(range(steps)):
        eps = model(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - alpha_bar[t]).sqrt() * eps) / (1 - betas[t]).sqrt()
        if t > 0:
            x = x + betas[t].sqrt() * torch.randn_like(x)
    return x


def main():
    torch.manual_seed(33)
    angle = torch.rand(640) * 6.283
    data = torch.stack([angle.cos(), angle.sin()], 1)
    loader = DataLoader(TensorDataset(data), batch_size=40, shuffle=True)
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for (x0,) in loader:
            t = torch.randint(0, steps, (len(x0),))
            noise = torch.randn_like(x0)
            a = alpha_bar[t].unsqueeze(1)
            xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
            loss = F.mse_loss(model(xt, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), sample(model, 16).norm(dim=1).mean().item())


main()
