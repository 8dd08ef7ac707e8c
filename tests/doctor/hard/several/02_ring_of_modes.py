# kind: several losses and optimizers
# expect: nothing
# like: foreign-gradients
# why: the generator's backward leaves gradients in the critic, but the critic has already stepped and both are
#      cleared at the top of the next iteration, so no step ever uses them.
"""Class-conditional least-squares GAN on eight modes in the plane."""
import argparse
import math

import torch
from torch import nn


def real_points(labels):
    angle = labels.float() * (2 * math.pi / 8)
    centre = torch.stack([angle.cos(), angle.sin()], 1)
    return centre + 0.05 * torch.randn_like(centre)


def mlp(sizes, slope=0.2):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(slope)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class CondNet(nn.Module):
    def __init__(self, dim_in, dim_out, classes=8, emb=8):
        super().__init__()
        self.emb = nn.Embedding(classes, emb)
        self.body = mlp([dim_in + emb, 64, 64, dim_out])

    def forward(self, x, labels):
        return self.body(torch.cat([x, self.emb(labels)], 1))


@torch.no_grad()
def quality(G, zdim):
    G.eval()
    labels = torch.arange(8).repeat(100)
    pts = G(torch.randn(800, zdim), labels)
    angle = labels.float() * (2 * math.pi / 8)
    centre = torch.stack([angle.cos(), angle.sin()], 1)
    G.train()
    return (pts - centre).norm(dim=1).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=750)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--zdim", type=int, default=4)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(11)

    G, D = CondNet(args.zdim, 2), CondNet(2, 1)
    optG = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(D.parameters(), lr=5e-4, betas=(0.5, 0.999))
    print(f"distance to modes before training {quality(G, args.zdim):.3f}")

    for step in range(args.steps):
        for opt in (optG, optD):
            opt.zero_grad()
        labels = torch.randint(0, 8, (args.batch,))
        real = real_points(labels)
        fake = G(torch.randn(args.batch, args.zdim), labels)

        d_real = D(real, labels)
        d_fake = D(fake.detach(), labels)
        d_loss = 0.5 * ((d_real - 1).square().mean() + d_fake.square().mean())
        d_loss.backward()
        optD.step()

        g_loss = 0.5 * (D(fake, labels) - 1).square().mean()
        g_loss.backward()
        optG.step()

        if step % 125 == 124:
            print(f"{step + 1:5d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  "
                  f"distance {quality(G, args.zdim):.3f}")


if __name__ == "__main__":
    main()
