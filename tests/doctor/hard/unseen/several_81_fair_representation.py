# kind: several losses
# expect: foreign-gradients
# also: missing-zero-grad
# why: Each optimizer clears its gradients only right after its own step; the encoder's adversarial backward then fills the critic's gradients again, and the critic's next step uses its own gradient plus that foreign, opposite one, so it hardly learns.
"""Representation that predicts an outcome while hiding a protected attribute."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(61)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Updater:
    """Apply one optimizer and leave its parameters clean for the next round."""

    def __init__(self, params, lr, limit=2.0):
        self.params = list(params)
        self.opt = torch.optim.Adam(self.params, lr=lr)
        self.limit = limit

    def __call__(self, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, self.limit)
        self.opt.step()
        self.opt.zero_grad()
        return loss.item()


def make_data(n, g):
    s = torch.randint(2, (n,), generator=g)
    z = torch.randn(n, 10, generator=g)
    y = ((z[:, 0] - z[:, 1] + 0.6 * (s * 2 - 1) + 0.4 * torch.randn(n, generator=g)) > 0).long()
    x = torch.cat([z, 0.8 * (s[:, None] * 2 - 1) + torch.randn(n, 4, generator=g)], 1)
    return x, y, s


@torch.no_grad()
def accuracies(encoder, outcome, critic, x, y, s):
    nets = (encoder, outcome, critic)
    for net in nets:
        net.eval()
    h = encoder(x)
    result = [(head(h).argmax(1) == t).float().mean().item()
              for head, t in ((outcome, y), (critic, s))]
    for net in nets:
        net.train()
    return result


def main():
    g = torch.Generator().manual_seed(7)
    train, valid = make_data(4096, g), make_data(1024, g)
    loader = DataLoader(TensorDataset(*train), batch_size=128, shuffle=True)
    encoder, outcome, critic = mlp(14, 48, 16), mlp(16, 32, 2), mlp(16, 32, 2)
    update_critic = Updater(critic.parameters(), lr=2e-3)
    update_task = Updater([*encoder.parameters(), *outcome.parameters()], lr=2e-3)
    weight = 1.0

    for epoch in range(10):
        sums, count = [0.0, 0.0], 0
        for x, y, s in loader:
            with torch.no_grad():
                h = encoder(x)
            sums[0] += update_critic(F.cross_entropy(critic(h), s))

            h = encoder(x)
            task = F.cross_entropy(outcome(h), y)
            confusion = F.cross_entropy(critic(h), 1 - s)
            sums[1] += update_task(task + weight * confusion)
            count += 1
        if epoch % 2 == 1:
            acc_y, acc_s = accuracies(encoder, outcome, critic, *valid)
            print(f"epoch {epoch + 1:2d} critic loss {sums[0] / count:.3f} task loss "
                  f"{sums[1] / count:.3f} outcome acc {acc_y:.3f} attribute acc {acc_s:.3f}")


if __name__ == "__main__":
    main()
