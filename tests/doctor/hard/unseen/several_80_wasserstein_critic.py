# kind: several losses
# expect: nothing
# why: Wasserstein GAN with weight clipping: real and fake get one backward each before the critic's step on purpose, weights are clamped in place after it, and the gradients the generator's loss leaves in the critic are cleared before the critic's next backward.
"""Wasserstein GAN with weight clipping on a two-dimensional spiral, several critic steps per generator step."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)

LATENT, BATCH, CLIP, CRITIC_STEPS = 4, 96, 0.1, 4


def real_batch(n):
    t = 1.0 + 3.5 * torch.rand(n, 1)
    spiral = torch.cat([t * torch.cos(t), t * torch.sin(t)], 1) / 4
    return spiral + 0.03 * torch.randn(n, 2)


def mlp(inp, out, width=48):
    return nn.Sequential(nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


def critic_step(critic, gen, optimizer):
    optimizer.zero_grad()
    with torch.no_grad():
        fake = gen(torch.randn(BATCH, LATENT))
    on_real = -critic(real_batch(BATCH)).mean()
    on_real.backward()
    on_fake = critic(fake).mean()
    on_fake.backward()
    optimizer.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-CLIP, CLIP)
    return -(on_real + on_fake).item()


def generator_step(critic, gen, optimizer):
    optimizer.zero_grad()
    loss = -critic(gen(torch.randn(BATCH, LATENT))).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    gen, critic = mlp(LATENT, 2), mlp(2, 1)
    opt_g = torch.optim.RMSprop(gen.parameters(), lr=5e-4)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    reference = real_batch(800)
    start = energy_distance(gen(torch.randn(800, LATENT)).detach(), reference)
    print(f"start: energy distance {start:.4f}")
    for step in range(1, 401):
        for _ in range(CRITIC_STEPS):
            gap = critic_step(critic, gen, opt_c)
        generator_step(critic, gen, opt_g)
        if step % 100 == 0:
            with torch.no_grad():
                samples = gen(torch.randn(800, LATENT))
            print(f"step {step} critic gap {gap:.4f} energy distance {energy_distance(samples, reference):.4f}")


if __name__ == "__main__":
    main()
