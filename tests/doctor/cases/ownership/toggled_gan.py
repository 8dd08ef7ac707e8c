import torch
import torch.nn as nn


def toggle(net, on):
    for p in net.parameters():
        p.requires_grad_(on)


def main(steps=40):
    torch.manual_seed(5)
    gen = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    og = torch.optim.RMSprop(gen.parameters(), lr=5e-4)
    oc = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    for _step in range(steps):
        toggle(critic, True)
        toggle(gen, False)
        real = torch.randn(32, 2) * 0.2 + 1
        fake = gen(torch.randn(32, 3))
        oc.zero_grad()
        loss_c = critic(fake).mean() - critic(real).mean()
        loss_c.backward()
        oc.step()
        for p in critic.parameters():
            p.data.clamp_(-0.1, 0.1)
        toggle(critic, False)
        toggle(gen, True)
        og.zero_grad()
        loss_g = -critic(gen(torch.randn(32, 3))).mean()
        loss_g.backward()
        og.step()
    print(loss_c.item(), loss_g.item())


main()
