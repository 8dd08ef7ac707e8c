# kind: no_loader
# expect: nothing
# why: Might be accused of graph-kept, graph-retained or diverging-loss: log-probabilities are kept with their graphs only until the one backward of the rollout, the carried hidden state is detached, and a policy-gradient loss has no direction.
"""Recurrent A2C on a corridor: a cue is shown at the entrance and must be remembered until the junction."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Config:
    envs: int = 48
    rollout: int = 12
    updates: int = 220
    gamma: float = 0.98
    lam: float = 0.95
    entropy: float = 0.01
    value: float = 0.5
    lr: float = 3e-3
    max_norm: float = 0.5


class Corridor:
    """Observation: cue (-1, 0, 1), at-entrance flag, at-junction flag. Actions: 0 walk, 1 left, 2 right."""

    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.cue, self.length, self.pos = torch.zeros(n), torch.zeros(n), torch.zeros(n)
        self._restart(torch.ones(n, dtype=torch.bool))

    def _restart(self, done):
        k = int(done.sum())
        self.cue[done] = torch.randint(0, 2, (k,), generator=self.gen).float() * 2 - 1
        self.length[done] = torch.randint(3, 6, (k,), generator=self.gen).float()
        self.pos[done] = 0.0

    def observe(self):
        entrance, junction = (self.pos == 0).float(), (self.pos == self.length).float()
        return torch.stack([self.cue * entrance, entrance, junction], dim=1)

    def step(self, action):
        junction = self.pos == self.length
        side = (action == 2).float() - (action == 1).float()
        reward = torch.where(junction, torch.where(side == self.cue, 1.0, -1.0), torch.where(side == 0, 0.0, -0.1))
        self.pos = torch.where(junction, self.pos, self.pos + 1)
        self._restart(junction)
        return reward, junction


class Agent(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.inp, self.cell = nn.Linear(3, hidden), nn.GRUCell(hidden, hidden)
        self.policy, self.critic = nn.Linear(hidden, 3), nn.Linear(hidden, 1)

    def forward(self, obs, state):
        state = self.cell(torch.tanh(self.inp(obs)), state)
        return self.policy(state), self.critic(state).squeeze(-1), state


def advantages(rewards, values, dones, last_value, cfg):
    out, running, following = torch.zeros_like(rewards), torch.zeros(cfg.envs), last_value
    for t in reversed(range(cfg.rollout)):
        keep = 1.0 - dones[t]
        delta = rewards[t] + cfg.gamma * keep * following - values[t]
        running = delta + cfg.gamma * cfg.lam * keep * running
        out[t], following = running, values[t]
    return out


def collect(agent, envs, state, cfg):
    logps, values, entropies, rewards, dones = [], [], [], [], []
    for _ in range(cfg.rollout):
        logits, value, state = agent(envs.observe(), state)
        dist = Categorical(logits=logits)
        action = dist.sample()
        reward, done = envs.step(action)
        logps.append(dist.log_prob(action))
        values.append(value)
        entropies.append(dist.entropy())
        rewards.append(reward)
        dones.append(done.float())
        state = state * (~done).float().unsqueeze(1)  # a new episode starts with an empty memory
    with torch.no_grad():
        last_value = agent(envs.observe(), state)[1]
    stacked = [torch.stack(part) for part in (logps, values, entropies, rewards, dones)]
    return stacked, last_value, state


@torch.no_grad()
def success_rate(agent, seed, n=256, steps=6):
    agent.eval()
    envs, state, right, ended = Corridor(n, seed), torch.zeros(n, 32), torch.zeros(n), torch.zeros(n, dtype=torch.bool)
    for _ in range(steps):
        logits, _, state = agent(envs.observe(), state)
        reward, done = envs.step(logits.argmax(dim=-1))
        right += ((reward > 0) & done & ~ended).float()
        ended |= done
    agent.train()
    return (right.sum() / ended.sum()).item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    cfg = Config()
    agent, envs = Agent(), Corridor(cfg.envs, seed=21)
    opt = torch.optim.Adam(agent.parameters(), lr=cfg.lr)
    state, mean_reward = torch.zeros(cfg.envs, 32), 0.0
    for update in range(1, cfg.updates + 1):
        (logp, value, entropy, reward, done), last_value, state = collect(agent, envs, state, cfg)
        adv = advantages(reward, value.detach(), done, last_value, cfg)
        returns = adv + value.detach()
        parts = {
            "policy": -(logp * adv).mean(),
            "value": cfg.value * (returns - value).pow(2).mean(),
            "entropy": -cfg.entropy * entropy.mean(),
        }
        loss = sum(parts.values())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), cfg.max_norm)
        opt.step()
        state = state.detach()  # truncated backpropagation: values go on, the graph does not
        mean_reward += 0.05 * (reward.mean().item() - mean_reward)
        if update % 44 == 0:
            shown = "  ".join(f"{k} {v.item():+.4f}" for k, v in parts.items())
            print(f"update {update:4d}  {shown}  reward {mean_reward:+.3f}  success {success_rate(agent, 99):.2f}")
    print(f"success on fresh corridors {success_rate(agent, 1234, n=1000):.3f}")


if __name__ == "__main__":
    main()
