# kind: numbers
# expect: nothing
# like: graph-kept
# why: log-probabilities and entropies are kept with their graphs over an episode because the policy
#   gradient needs them; one backward uses them and the memory is emptied. The baseline is a plain number.
import torch
from torch import nn

torch.set_num_threads(1)


class Grid:
    """Many walkers on a plane; the nearer to the goal after each move, the better."""

    moves = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])

    def __init__(self, size, walkers, seed):
        self.size, self.walkers = size, walkers
        self.rng = torch.Generator().manual_seed(seed)

    def reset(self):
        draw = lambda: torch.randint(0, self.size, (self.walkers, 2), generator=self.rng).float()
        self.pos, self.goal = draw(), draw()
        return self.observe()

    def observe(self):
        half = (self.size - 1) / 2
        return torch.cat([(self.pos - half) / half, (self.goal - half) / half], dim=1)

    def distance(self):
        return (self.pos - self.goal).abs().sum(1)

    def step(self, action):
        before = self.distance()
        self.pos = (self.pos + self.moves[action]).clamp(0, self.size - 1)
        after = self.distance()
        reward = (before - after) + 0.5 * (after == 0).float()
        return self.observe(), reward


class Agent(nn.Module):
    def __init__(self, actions=5, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, actions))
        self.forget()

    def forget(self):
        self.log_probs, self.entropies, self.rewards = [], [], []

    def log_policy(self, obs):
        z = self.net(obs)
        return z - z.logsumexp(dim=1, keepdim=True)

    def act(self, obs):
        logp = self.log_policy(obs)
        action = torch.multinomial(logp.detach().exp(), 1)
        self.log_probs.append(logp.gather(1, action)[:, 0])
        self.entropies.append(-(logp.exp() * logp).sum(1))
        return action[:, 0]

    def episode_loss(self, baseline, gamma=0.9, beta=0.01):
        returns, acc = [], torch.zeros_like(self.rewards[0])
        for r in reversed(self.rewards):
            acc = r + gamma * acc
            returns.insert(0, acc)
        returns = torch.stack(returns)
        advantage = returns - baseline
        advantage = advantage / (returns.std() + 1e-6)
        objective = torch.stack(self.log_probs) * advantage + beta * torch.stack(self.entropies)
        return -objective.mean(), returns.mean().item()


@torch.no_grad()
def greedy_distance(agent, horizon):
    agent.eval()
    env = Grid(7, 256, seed=9001)
    obs = env.reset()
    for _ in range(horizon):
        obs, _ = env.step(agent.log_policy(obs).argmax(1))
    agent.train()
    return env.distance().mean().item()


def train(episodes=240, horizon=12):
    torch.manual_seed(8)
    env = Grid(7, 32, seed=8)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
    baseline = 0.0
    for episode in range(1, episodes + 1):
        obs = env.reset()
        for _ in range(horizon):
            obs, reward = env.step(agent.act(obs))
            agent.rewards.append(reward)
        loss, mean_return = agent.episode_loss(baseline)
        baseline = 0.9 * baseline + 0.1 * mean_return
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        optimizer.step()
        agent.forget()
        if episode % 40 == 0:
            print(f"episode {episode:3d}  return {mean_return:.3f}  left to go {greedy_distance(agent, horizon):.3f}")


train()
