"""A bandit with dropout as exploration."""
import torch
from torch import nn

torch.manual_seed(47)
world = torch.randn(5, 12)
model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 5))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
memory = []
for round in range(60):
    states = torch.randn(32, 12)
    with torch.no_grad():
        actions = model(states).argmax(1)
    rewards = (world[actions] * states).sum(1).tanh() + 0.1 * torch.randn(32)
    memory.append((states, actions, rewards))
    for _ in range(4):
        s, a, r = memory[torch.randint(0, len(memory), ()).item()]
        loss = (model(s).gather(1, a[:, None]).squeeze(1) - r).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if round % 10 == 9:
        print(round, rewards.mean().item())
