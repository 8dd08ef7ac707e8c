import torch
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.q = nn.Linear(4, 2)
        self.target_q = self.q
        self.opt = torch.optim.Adam(self.q.parameters(), 1e-3)

    def bootstrap(self, s2, r):
        with torch.no_grad():
            return r + 0.9 * self.target_q(s2).max(1).values

    def learn(self):
        s, s2 = torch.randn(32, 4), torch.randn(32, 4)
        r = s[:, 0]
        a = torch.randint(2, (32, 1))
        q = self.q(s).gather(1, a).squeeze(1)
        loss = nn.functional.mse_loss(q, self.bootstrap(s2, r))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


agent = Agent()
for i in range(60):
    agent.learn()
