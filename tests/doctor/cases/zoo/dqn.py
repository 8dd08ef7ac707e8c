import random
from collections import deque, namedtuple

import torch
from torch import nn, optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward", "done"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return random.sample(self.memory, n)

    def __len__(self):
        return len(self.memory)


def make_net():
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))


def env_step(s, a):
    move = 0.2 if a == 1 else -0.2
    nxt = torch.stack([s[0] + move, s[1]])
    done = abs(nxt[0] - s[1]) < 0.15
    return nxt, -abs(nxt[0] - s[1]).item(), done.item()


def optimize(policy, target, memory, optimizer, batch=16, gamma=0.9):
    if len(memory) < batch:
        return
    rows = Transition(*zip(*memory.sample(batch)))
    state, nxt = torch.stack(rows.state), torch.stack(rows.next_state)
    action = torch.tensor(rows.action).unsqueeze(1)
    reward, done = torch.tensor(rows.reward), torch.tensor(rows.done)
    value = policy(state).gather(1, action)
    with torch.no_grad():
        following = target(nxt).max(1).values * (~done)
    expected = (reward + gamma * following).unsqueeze(1)
    loss = nn.functional.smooth_l1_loss(value, expected)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()


random.seed(0)
torch.manual_seed(0)
policy_net, target_net = make_net(), make_net()
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory = ReplayMemory(500)
TAU = 0.05
for episode in range(8):
    state = torch.rand(2)
    for t in range(10):
        if random.random() < 0.3:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = policy_net(state.unsqueeze(0)).argmax(1).item()
        next_state, reward, done = env_step(state, action)
        memory.push(state, action, next_state, reward, done)
        state = next_state
        optimize(policy_net, target_net, memory, optimizer)
        weights = target_net.state_dict()
        for key, value in policy_net.state_dict().items():
            weights[key] = value * TAU + weights[key] * (1 - TAU)
        target_net.load_state_dict(weights)
        if done:
            break
print("transitions", len(memory))
