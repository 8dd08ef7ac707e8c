# kind: several
# expect: nothing
# why: Might be accused of foreign-gradients, gradients-discarded or leaf-written-in-place: the generator's backward leaves gradients in the critic that are cleared unused before its own backward, and the averaged generator is written by hand.
"""Logistic GAN with a lazy R1 penalty and an averaged generator, on a ring of Gaussians."""
import copy
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MODES, LATENT, STEPS, R1_EVERY, R1_GAMMA = 8, 8, 1100, 8, 0.1


def ring(n, generator):
    which = torch.randint(MODES, (n,), generator=generator)
    angle = which.float() * 2 * math.pi / MODES
    return torch.stack([angle.cos(), angle.sin()], 1) * 1.4 + 0.05 * torch.randn(n, 2, generator=generator)


def make_generator():
    return nn.Sequential(nn.Linear(LATENT, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))


def make_critic():
    sizes = [2, 96, 96, 1]
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def forever(loader):
    while True:
        for (batch,) in loader:
            yield batch


@torch.no_grad()
def update_average(average, live, decay):
    for a, p in zip(average.parameters(), live.parameters()):
        a.lerp_(p, 1.0 - decay)


@torch.no_grad()
def quality(net, n=2000, seed=17):
    net.eval()
    z = torch.randn(n, LATENT, generator=torch.Generator().manual_seed(seed))
    angle = torch.arange(MODES) * 2 * math.pi / MODES
    centres = torch.stack([angle.cos(), angle.sin()], 1) * 1.4
    distance, mode = torch.cdist(net(z), centres).min(dim=1)
    good = distance < 0.2
    covered = (torch.bincount(mode[good], minlength=MODES) > n // (MODES * 10)).sum().item()
    return good.float().mean().item(), covered


def critic_step(critic, generator, optimizer, real, step):
    with torch.no_grad():
        fake = generator(torch.randn(len(real), LATENT))
    real = real.requires_grad_(step % R1_EVERY == 0)
    score_real, score_fake = critic(real), critic(fake)
    loss = F.softplus(-score_real).mean() + F.softplus(score_fake).mean()
    parts = {"critic": loss.detach()}
    if real.requires_grad:
        slope, = torch.autograd.grad(score_real.sum(), real, create_graph=True)
        penalty = slope.pow(2).sum(dim=1).mean()
        loss = loss + R1_EVERY * R1_GAMMA / 2 * penalty  # weighted up because it is only taken now and then
        parts["r1"] = penalty.detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return parts


def generator_step(critic, generator, optimizer, batch_size):
    loss = F.softplus(-critic(generator(torch.randn(batch_size, LATENT)))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {"generator": loss.detach()}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(23)
    data = TensorDataset(ring(6000, torch.Generator().manual_seed(1)))
    stream = forever(DataLoader(data, batch_size=128, shuffle=True, drop_last=True))
    generator, critic = make_generator(), make_critic()
    average = copy.deepcopy(generator).requires_grad_(False)
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=3e-3, betas=(0.5, 0.99))
    sums, counts = {}, {}
    for step in range(STEPS):
        logs = critic_step(critic, generator, opt_c, next(stream), step)
        logs |= generator_step(critic, generator, opt_g, 128)
        update_average(average, generator, decay=min(0.995, (1 + step) / (10 + step)))
        for name, value in logs.items():
            sums[name] = sums.get(name, 0.0) + value
            counts[name] = counts.get(name, 0) + 1
        if (step + 1) % 220 == 0:
            text = "  ".join(f"{k} {float(sums[k]) / counts[k]:+.3f}" for k in sums)
            good, covered = quality(average)
            print(f"step {step + 1}  {text}  good {good:.2f}  modes {covered}/{MODES}")
            sums, counts = {}, {}


if __name__ == "__main__":
    main()
