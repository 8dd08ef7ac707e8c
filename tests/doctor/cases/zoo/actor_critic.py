import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(30)
actor = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
critic = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=5e-3)
state = torch.randn(8, 4)
for update in range(40):
    dist = Categorical(logits=actor(state))
    action = dist.sample()
    next_state = 0.8 * state + 0.2 * torch.randn(8, 4)
    reward = (action == state[:, :3].argmax(1)).float()
    value = critic(state).squeeze(1)
    with torch.no_grad():
        target = reward + 0.9 * critic(next_state).squeeze(1)
    advantage = target - value
    critic_loss = advantage.pow(2).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_loss = -(dist.log_prob(action) * advantage.detach()).mean() - 0.01 * dist.entropy().mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    state = next_state
    if update % 10 == 0:
        print(update, critic_loss.item(), actor_loss.item())
