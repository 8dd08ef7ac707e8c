import torch
from torch import autograd, nn

torch.manual_seed(1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.ReLU(True), nn.Linear(32, 32), nn.ReLU(True), nn.Linear(32, 2))

    def forward(self, z):
        return self.main(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.main(x).view(-1)


def gradient_penalty(critic, real, fake, weight=10.0):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    grads = autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)[0]
    return weight * ((grads.norm(2, dim=1) - 1) ** 2).mean()


generator, critic = Generator(), Critic()
optim_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
optim_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
n_critic = 4
for it in range(15):
    for _ in range(n_critic):
        real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
        with torch.no_grad():
            fake = generator(torch.randn(32, 2))
        optim_d.zero_grad()
        d_loss = critic(fake).mean() - critic(real).mean() + gradient_penalty(critic, real, fake)
        d_loss.backward()
        optim_d.step()
    optim_g.zero_grad()
    g_loss = -critic(generator(torch.randn(32, 2))).mean()
    g_loss.backward()
    optim_g.step()
    if it % 5 == 0:
        print(it, f"{d_loss.item():.4f} {g_loss.item():.4f}")
