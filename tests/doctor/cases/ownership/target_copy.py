import torch, copy
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.q = nn.Linear(4, 2)
        self.target_q = copy.deepcopy(self.q)
        self.net = self.q
        self.opt = torch.optim.Adam(self.q.parameters(), 1e-3)

    def learn(self, i):
        s, s2 = torch.randn(32, 4), torch.randn(32, 4)
        r = s[:, 0]
        a = torch.randint(2, (32, 1))
        with torch.no_grad():
            t = r + 0.9 * self.target_q(s2).max(1).values
        loss = nn.functional.mse_loss(self.q(s).gather(1, a).squeeze(1), t)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if i % 10 == 0:
            self.target_q.load_state_dict(self.q.state_dict())


agent = Agent()
q_net = agent.q
for i in range(60):
    agent.learn(i)
