# kind: behind indirection
# expect: foreign-gradients
# why: Each player clears its own gradients in a hook after its own step. The scorer's loss contains the adversary, so
#      its backward leaves gradients in the adversary's parameters, which the adversary's next step then uses.
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.set_num_threads(1)
torch.manual_seed(77)


def applicants(n, g):
    group = torch.randint(0, 2, (n,), generator=g).float()
    skill = torch.randn(n, 3, generator=g)
    proxy = (group - 0.5)[:, None] * torch.tensor([1.6, -1.2]) + torch.randn(n, 2, generator=g)
    noise = torch.randn(n, 4, generator=g)
    x = torch.cat([skill, proxy, noise], 1)
    y = (skill @ torch.tensor([1.2, -0.8, 0.6]) + 0.8 * (group - 0.5) + 0.5 * torch.randn(n, generator=g) > 0).float()
    return x, y, group


class Player:
    """Modules and the optimizer that owns them; leaves a clean slate behind every step."""

    def __init__(self, *modules, lr):
        self.modules = modules
        self.opt = torch.optim.Adam([p for m in modules for p in m.parameters()], lr=lr)
        self.opt.register_step_post_hook(self._wipe)

    @staticmethod
    def _wipe(opt, args, kwargs):
        opt.zero_grad()

    def play(self, objective):
        value = objective()
        value.backward()
        self.opt.step()
        return value.item()

    def mode(self, training):
        for m in self.modules:
            m.train(training)


encoder = nn.Sequential(nn.Linear(9, 32), nn.LeakyReLU(), nn.Linear(32, 8))
scorer = nn.Sequential(nn.LeakyReLU(), nn.Linear(8, 1), nn.Flatten(0))
auditor = nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(), nn.Linear(24, 1), nn.Flatten(0))

bank = Player(encoder, scorer, lr=2e-3)
critic = Player(auditor, lr=2e-3)

g = torch.Generator().manual_seed(78)
X, Y, G = applicants(2400, g)
N = 1920
mu, sd = X[:N].mean(0), X[:N].std(0)
X = (X - mu) / sd


def audit(x, group):
    def objective():
        with torch.no_grad():
            z = encoder(x)
        return bce(auditor(z), group)
    return objective


def lend(x, y, group, weight):
    def objective():
        z = encoder(x)
        return bce(scorer(z), y) - weight * bce(auditor(z), group)
    return objective


def held_out():
    for p in (bank, critic):
        p.mode(False)
    with torch.no_grad():
        z = encoder(X[N:])
        acc = ((scorer(z) > 0).float() == Y[N:]).float().mean().item()
        leak = ((auditor(z) > 0).float() == G[N:]).float().mean().item()
        gap = (scorer(z)[G[N:] == 1] > 0).float().mean() - (scorer(z)[G[N:] == 0] > 0).float().mean()
    return acc, leak, gap.item()


for epoch in range(10):
    for p in (bank, critic):
        p.mode(True)
    sums = torch.zeros(2)
    batches = torch.randperm(N, generator=g).split(48)
    for idx in batches:
        x, y, grp = X[idx], Y[idx], G[idx]
        a = critic.play(audit(x, grp))
        b = bank.play(lend(x, y, grp, weight=0.4))
        sums += torch.tensor([a, b])
    acc, leak, gap = held_out()
    a, b = (sums / len(batches)).tolist()
    print(f"epoch {epoch} auditor {a:.3f} bank {b:.3f} | valid acc {acc:.3f} leak {leak:.3f} gap {gap:+.3f}")
