"""Deep Q-learning on a corridor with replay and a target network."""

import copy
import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

random.seed(0)
torch.manual_seed(0)
N = 8
q = nn.Sequential(nn.Linear(N, 24), nn.ReLU(), nn.Linear(24, 2))
target = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), lr=3e-3)
memory = deque(maxlen=500)


def one_hot(s):
    return F.one_hot(torch.tensor(s), N).float()


s = 0
for t in range(160):
    with torch.no_grad():
        a = random.randrange(2) if random.random() < 0.3 else int(q(one_hot(s)).argmax())
    s2 = min(N - 1, s + 1) if a == 1 else max(0, s - 1)
    r, done = (10.0, True) if s2 == N - 1 else (-0.01, False)
    memory.append((s, a, r, s2, done))
    s = 0 if done else s2
    if len(memory) >= 32:
        rows = random.sample(memory, 16)
        states, actions, rewards, following, ends = zip(*rows)
        x, x2 = torch.stack([one_hot(i) for i in states]), torch.stack([one_hot(i) for i in following])
        with torch.no_grad():
            best = target(x2).max(1).values * (1 - torch.tensor(ends).float())
        wanted = torch.tensor(rewards) + 0.97 * best
        got = q(x).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(got, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 1.0)
        optimizer.step()
    if t % 20 == 0:
        target.load_state_dict(q.state_dict())
print("loss", loss.item())
