# kind: several losses and optimizers
# expect: nothing
# like: graph-retained
# why: create_graph/retain_graph belong to the gradient penalty (a second derivative is needed); each graph dies with
#      its iteration, nothing carries over.
"""WGAN-GP for correlated wind gusts; the critic takes three steps per generator step."""
import argparse

import torch
from torch import nn


class GustSource:
    def __init__(self, length, seed):
        self.length = length
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self, n):
        e = torch.randn(n, self.length, generator=self.gen)
        out = [e[:, 0]]
        for i in range(1, self.length):
            out.append(0.8 * out[-1] + 0.6 * e[:, i])
        return torch.stack(out, 1)


class Critic(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(length, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2),
                                 nn.Linear(96, 1, bias=False))

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(len(real), 1)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    grad, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True, retain_graph=True)
    return (grad.norm(dim=1) - 1).square().mean()


def lag_one(x):
    return ((x[:, 1:] * x[:, :-1]).mean() / x.square().mean()).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=350)
    ap.add_argument("--n-critic", type=int, default=3)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--gp", type=float, default=5.0)
    ap.add_argument("--z", type=int, default=16)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(29)
    length = 16
    source = GustSource(length, 77)
    generator = nn.Sequential(nn.Linear(args.z, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, length))
    critic = Critic(length)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.0, 0.9))
    print(f"real lag-1 correlation {lag_one(source(4000)):.3f}")

    for rnd in range(1, args.rounds + 1):
        for _ in range(args.n_critic):
            real = source(args.batch)
            with torch.no_grad():
                fake = generator(torch.randn(args.batch, args.z))
            distance = critic(real).mean() - critic(fake).mean()
            penalty = gradient_penalty(critic, real, fake)
            opt_c.zero_grad()
            (args.gp * penalty - distance).backward()
            opt_c.step()

        critic.requires_grad_(False)
        g_loss = -critic(generator(torch.randn(args.batch, args.z))).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        critic.requires_grad_(True)

        if rnd % 50 == 0:
            generator.eval()
            with torch.no_grad():
                sample = generator(torch.randn(4000, args.z))
            generator.train()
            print(f"round {rnd:4d}  distance {distance.item():.3f}  penalty {penalty.item():.4f}  "
                  f"lag-1 {lag_one(sample):.3f}  std {sample.std().item():.3f}")


if __name__ == "__main__":
    main()
