# kind: several losses
# expect: nothing
# why: a WGAN with gradient penalty: the critic is trained several times per generator step, the generator's gradients in the critic are dropped unused before the critic's next backward, create_graph is needed for the penalty, and the averaged generator is a real copy without BatchNorm.
"""WGAN-GP on a ring of Gaussians with an averaged generator for sampling."""
import copy
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(14)

MODES, NOISE, CRITIC_STEPS, PENALTY = 5, 4, 2, 0.1


def ring(n):
    angle = torch.randint(0, MODES, (n,)) * (2 * math.pi / MODES)
    centre = torch.stack([angle.cos(), angle.sin()], 1) * 1.5
    return centre + 0.08 * torch.randn(n, 2)


def mlp(i, o, width=64):
    return nn.Sequential(nn.Linear(i, width), nn.LeakyReLU(0.2), nn.Linear(width, width),
                         nn.LeakyReLU(0.2), nn.Linear(width, o))


def penalty(critic, real, fake):
    t = torch.rand(len(real), 1)
    point = (t * real + (1 - t) * fake).requires_grad_()
    (g,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    return (g.norm(dim=1) - 1).square().mean()


class Averaged:
    def __init__(self, model, decay):
        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, source):
        for mine, theirs in zip(self.model.parameters(), source.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


@torch.no_grad()
def coverage(gen, n=2000):
    x = gen(torch.randn(n, NOISE))
    angle = torch.arange(MODES) * (2 * math.pi / MODES)
    centre = torch.stack([angle.cos(), angle.sin()], 1) * 1.5
    dist, which = torch.cdist(x, centre).min(1)
    good = dist < 0.35
    return len(which[good].unique()), good.float().mean().item()


def main():
    gen, critic = mlp(NOISE, 2), mlp(2, 1)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    averaged = Averaged(gen, 0.95)
    for step in range(1, 451):
        for _ in range(CRITIC_STEPS):
            real = ring(64)
            with torch.no_grad():
                fake = gen(torch.randn(64, NOISE))
            distance = critic(real).mean() - critic(fake).mean()
            loss_c = -distance + PENALTY * penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
        loss_g = -critic(gen(torch.randn(64, NOISE))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        averaged.update(gen)
        if step % 90 == 0:
            modes, share = coverage(averaged.model)
            print(f"step {step:4d}  distance {distance.item():.3f}  modes {modes}/{MODES}  near a mode {share:.2f}")


if __name__ == "__main__":
    main()
