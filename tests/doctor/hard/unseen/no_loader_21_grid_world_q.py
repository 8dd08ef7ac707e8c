# kind: without a DataLoader
# expect: loss-broadcast
# why: the chosen values keep the axis of gather, (batch, 1), while the targets are (batch,), and the hand-written Huber loss
#      broadcasts both to (batch, batch): every value is pulled to the mean target of the batch.
"""Q-learning on a random grid world with a replay buffer and a target network."""
import argparse
import copy
import torch
from torch import nn

SIZE, MOVES = 6, torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    def __init__(self, n, g):
        self.n, self.g = n, g
        self.pos, self.goal = self.place(n), self.place(n)

    def place(self, n):
        return torch.randint(0, SIZE, (n, 2), generator=self.g)

    def observe(self):
        return torch.cat([self.pos, self.goal, self.goal - self.pos], 1).float() / 2.5 - torch.tensor([1.0] * 4 + [0.0] * 2)

    def step(self, action):
        before = (self.pos - self.goal).abs().sum(1)
        self.pos = (self.pos + MOVES[action]).clamp(0, SIZE - 1)
        after = (self.pos - self.goal).abs().sum(1)
        done = after == 0
        reward = 0.3 * (before - after).float() + done.float()
        nxt = self.observe()
        fresh = self.place(self.n), self.place(self.n)
        self.pos = torch.where(done[:, None], fresh[0], self.pos)
        self.goal = torch.where(done[:, None], fresh[1], self.goal)
        return reward, done, nxt


class Buffer:
    def __init__(self, cap):
        self.cap, self.items = cap, []

    def add(self, *item):
        self.items = (self.items + [item])[-self.cap:]

    def sample(self, k):
        pick = torch.randint(0, len(self.items), (k,)).tolist()
        return [torch.cat(col) for col in zip(*(self.items[i] for i in pick))]


def huber(pred, target):
    d = (pred - target).abs()
    return torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()


def q_net(h):
    return nn.Sequential(nn.Linear(6, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 4))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--gamma", type=float, default=0.8)
    args = ap.parse_args()
    torch.manual_seed(121)
    torch.set_num_threads(1)
    env, buffer = Grid(16, torch.Generator().manual_seed(1210)), Buffer(300)
    net = q_net(64)
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses, rewards = [], []
    for step in range(1, args.steps + 1):
        obs = env.observe()
        with torch.no_grad():
            greedy = net(obs).argmax(1)
        explore = torch.rand(16) < max(0.1, 1 - step / 400)
        action = torch.where(explore, torch.randint(0, 4, (16,)), greedy)
        reward, done, nxt = env.step(action)
        buffer.add(obs, action, reward, done, nxt)
        rewards.append(reward.mean().item())
        s, a, r, d, s2 = buffer.sample(4)
        with torch.no_grad():
            goal = r + args.gamma * (~d).float() * target(s2).amax(1)
        loss = huber(net(s).gather(1, a[:, None]), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if step % 50 == 0:
            target.load_state_dict(net.state_dict())
        if step % 100 == 0:
            print(f"step {step} loss {sum(losses[-100:]) / 100:.4f} reward per move {sum(rewards[-100:]) / 100:.4f}")


if __name__ == "__main__":
    main()
