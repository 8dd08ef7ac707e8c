import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    def __init__(self, length=5):
        self.length = length

    def reset(self):
        self.position, self.time = 0, 0
        return self.observe()

    def observe(self):
        return torch.eye(self.length)[self.position]

    def step(self, action):
        self.time += 1
        self.position = max(0, min(self.length - 1, self.position + (1 if action == 1 else -1)))
        done = self.position == self.length - 1 or self.time >= 12
        return self.observe(), (1.0 if self.position == self.length - 1 else -0.05), done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(5, 24)
        self.dropout = nn.Dropout(p=0.1)
        self.action = nn.Linear(24, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return torch.softmax(self.action(torch.relu(self.dropout(self.affine(x)))), dim=-1)


def finish_episode(policy, optimizer, gamma=0.98):
    returns, R = [], 0.0
    for r in reversed(policy.rewards):
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std(unbiased=False) + 1e-6)
    policy_loss = torch.stack([-lp * R for lp, R in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


def main():
    torch.manual_seed(543)
    env, policy = Corridor(), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(35):
        state, done, total = env.reset(), False, 0.0
        while not done:
            m = Categorical(policy(state))
            action = m.sample()
            policy.saved_log_probs.append(m.log_prob(action))
            state, reward, done = env.step(action.item())
            policy.rewards.append(reward)
            total += reward
        finish_episode(policy, optimizer)
        if episode % 10 == 0:
            print(f"episode {episode} reward {total:.2f}")


if __name__ == "__main__":
    main()
