# kind: in a second phase
# expect: nothing
# like: dead-parameter
# why: for the first 240 steps only the value network gets gradients, although the policy is in the same optimizer: it
#      joins with its own loss when the values are good enough to weight actions. (The loss rises then by that new term.)
"""Offline reinforcement learning: advantage-weighted regression with a value warm-up."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
ACTIONS = 4


def logged_play(count, generator):
    """A logged contextual game: four moves, the return depends on the context and the move."""
    context = torch.randn(count, 6, generator=generator)
    taste = torch.randn(ACTIONS, 6, generator=torch.Generator().manual_seed(404))
    quality = torch.tanh(context @ taste.t() / 2) + context[:, :1]
    behaviour = torch.softmax(0.5 * quality, dim=1)
    move = torch.multinomial(behaviour, 1, generator=generator).squeeze(1)
    result = quality.gather(1, move[:, None]).squeeze(1) + 0.2 * torch.randn(count, generator=generator)
    return context, move, result, quality


class Agent(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 1))
        self.policy = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, ACTIONS))

    def losses(self, context, move, result, temperature=0.4):
        value = self.value(context).squeeze(1)
        value_loss = F.mse_loss(value, result)
        return value_loss, lambda: self.policy_loss(context, move, result - value.detach(), temperature)

    def policy_loss(self, context, move, advantage, temperature):
        weight = (advantage / temperature).clamp(-3, 3).exp()
        weight = weight / weight.mean()
        return (weight * F.cross_entropy(self.policy(context), move, reduction="none")).mean()


@torch.no_grad()
def greedy_quality(agent, context, quality):
    agent.eval()
    return quality.gather(1, agent.policy(context).argmax(1, keepdim=True)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--value-epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(15)
    generator = torch.Generator().manual_seed(15)
    context, move, result, _ = logged_play(5120, generator)
    test_context, _, _, test_quality = logged_play(1024, generator)
    loader = DataLoader(TensorDataset(context, move, result), batch_size=64, shuffle=True)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr)
    print(f"best possible {test_quality.max(1).values.mean():.3f}  random {test_quality.mean():.3f}")

    for epoch in range(args.epochs):
        agent.train()
        sums = [0.0, 0.0]
        for batch in loader:
            value_loss, policy_loss = agent.losses(*batch)
            loss = value_loss
            sums[0] += value_loss.item()
            if epoch >= args.value_epochs:
                extra = policy_loss()
                loss = loss + extra
                sums[1] += extra.item()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 5.0)
            optimizer.step()
        print(f"epoch {epoch}: value {sums[0] / len(loader):.4f}  policy {sums[1] / len(loader):.4f}  "
              f"greedy quality {greedy_quality(agent, test_context, test_quality):.3f}")


if __name__ == "__main__":
    main()
