# kind: without a DataLoader
# expect: nothing
# like: foreign-gradients
# why: the generator's loss does pour gradients into the critic, but the critic's optimizer clears them before its own
#      backward, so every step uses the gradients of its own loss only.
"""A small GAN for pulse shapes: real pulses are simulated at every step."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

LENGTH = 32


def pulses(n, g):
    t = torch.linspace(-1, 1, LENGTH)
    centre = 0.4 * torch.randn(n, 1, generator=g)
    width = 0.2 + 0.15 * torch.rand(n, 1, generator=g)
    height = 1.5 + 0.5 * torch.rand(n, 1, generator=g)
    return height * torch.exp(-0.5 * ((t - centre) / width) ** 2) - 0.6 + 0.03 * torch.randn(n, LENGTH, generator=g)


def mlp(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class Game:
    def __init__(self, z, lr):
        self.z = z
        self.gen, self.critic = mlp(z, 96, 96, LENGTH), mlp(LENGTH, 96, 96, 1)
        self.og = torch.optim.Adam(self.gen.parameters(), lr=lr, betas=(0.5, 0.99))
        self.oc = torch.optim.Adam(self.critic.parameters(), lr=lr, betas=(0.5, 0.99))

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.gen(torch.randn(len(real), self.z))
        r, f = self.critic(real), self.critic(fake)
        loss = F.softplus(-r).mean() + F.softplus(f).mean()
        self.oc.zero_grad()
        loss.backward()
        self.oc.step()
        return loss.item()

    def gen_step(self, n):
        loss = F.softplus(-self.critic(self.gen(torch.randn(n, self.z)))).mean()
        self.og.zero_grad()
        loss.backward()
        self.og.step()
        return loss.item()

    @torch.no_grad()
    def distance(self, real, noise):
        self.gen.eval()
        fake = self.gen(noise)
        self.gen.train()
        return ((fake.mean(0) - real.mean(0)).abs().mean() + (fake.std(0) - real.std(0)).abs().mean()).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=700)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(118)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1180)
    held, noise = pulses(1000, torch.Generator().manual_seed(2)), torch.randn(1000, 8)
    game = Game(8, lr=5e-4)
    lc = lg = 0.0
    print(f"start distance {game.distance(held, noise):.4f}")
    for i in range(1, args.rounds + 1):
        lc += game.critic_step(pulses(args.batch, g))
        lg += game.gen_step(args.batch)
        if i % 100 == 0:
            print(f"round {i} critic {lc / 100:.4f} generator {lg / 100:.4f} distance of moments {game.distance(held, noise):.4f}")
            lc = lg = 0.0


if __name__ == "__main__":
    main()
