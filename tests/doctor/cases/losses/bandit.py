import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs=6, actions=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 24), nn.Tanh(), nn.Linear(24, actions))

    def forward(self, obs):
        return torch.log_softmax(self.net(obs), dim=-1)


def pull(obs, action):
    best = obs[:, :4].argmax(dim=1)
    return (action == best).float() + 0.1 * torch.randn(len(obs))


def main():
    torch.manual_seed(2)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for update in range(40):
        obs = torch.randn(48, 6)
        log_probs = policy(obs)
        with torch.no_grad():
            action = torch.multinomial(log_probs.exp(), 1)
            reward = pull(obs, action.squeeze(1))
            advantage = reward - reward.mean()
        chosen = log_probs.gather(1, action)
        loss = -(chosen * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 10 == 0:
            print(update, reward.mean().item())


main()
