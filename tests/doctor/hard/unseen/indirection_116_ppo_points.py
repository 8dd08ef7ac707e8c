# kind: indirection
# expect: nothing
# why: Might be accused of batch-mixed, schedule-wrong-unit or constant-loss: advantages are standardised over a minibatch on purpose, the linear schedule is counted in iterations and stepped once per iteration, and the policy loss hovers near zero by design.
"""PPO for a point mass with two thrusters that has to fly to a goal."""

import torch
from torch import nn
from torch.distributions import Normal

ITERATIONS, ENVS, HORIZON, EPOCHS, MINIBATCH, GAMMA, LAM, CLIP, TARGET_KL = 30, 32, 40, 4, 320, 0.97, 0.95, 0.2, 0.03


class PointWorld:
    limit = 40

    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.pos, self.vel, self.goal, self.t = torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, dtype=torch.long)
        self.reset(torch.ones(n, dtype=torch.bool))
        self.t = torch.randint(0, self.limit, (n,), generator=self.gen)  # spread the resets over the rollout

    def reset(self, which):
        k = int(which.sum())
        self.pos[which] = torch.rand(k, 2, generator=self.gen) * 20 - 10
        self.goal[which] = torch.rand(k, 2, generator=self.gen) * 20 - 10
        self.vel[which] = 0.0
        self.t[which] = 0

    def observe(self):
        return torch.cat([self.goal - self.pos, self.vel], dim=1)

    def step(self, action):
        self.vel = 0.8 * self.vel + action.clamp(-2, 2)
        self.pos = self.pos + 0.5 * self.vel
        self.t += 1
        reward = -0.1 * (self.goal - self.pos).norm(dim=1) - 0.01 * action.pow(2).sum(dim=1)
        after, cut = self.observe(), self.t >= self.limit
        self.reset(cut)
        return reward, after, cut


class RunningScale:
    """Mean and spread of everything seen in training; frozen for evaluation."""

    def __init__(self, dim):
        self.count, self.mean, self.m2 = 0, torch.zeros(dim), torch.ones(dim)

    def update(self, x):
        n, mean, m2 = len(x), x.mean(0), (x - x.mean(0)).pow(2).sum(0)
        total, delta = self.count + n, mean - self.mean
        self.m2 = self.m2 + m2 + delta.pow(2) * self.count * n / total
        self.mean, self.count = self.mean + delta * n / total, total

    def __call__(self, x):
        return ((x - self.mean) / (self.m2 / max(self.count, 1)).clamp_min(1e-6).sqrt()).clamp(-6, 6)


def mlp(out, gain):
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))
    nn.init.orthogonal_(net[-1].weight, gain)
    return net


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = mlp(2, 0.01), mlp(1, 1.0)
        self.log_std = nn.Parameter(torch.full((2,), -0.3))

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp())

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


@torch.no_grad()
def rollout(model, env, scale):
    buf = {k: [] for k in ("obs", "action", "logp", "value", "reward", "next_value", "cut")}
    for _ in range(HORIZON):
        scale.update(env.observe())
        obs = scale(env.observe())
        dist = model.dist(obs)
        action = dist.sample()
        reward, after, cut = env.step(action)
        row = (obs, action, dist.log_prob(action).sum(-1), model.value(obs), reward, model.value(scale(after)), cut.float())
        for key, value in zip(buf, row):
            buf[key].append(value)
    data = {k: torch.stack(v) for k, v in buf.items()}
    adv, running = torch.zeros_like(data["reward"]), torch.zeros(ENVS)
    for t in reversed(range(HORIZON)):  # a cut-off episode still bootstraps from the state it reached
        delta = data["reward"][t] + GAMMA * data["next_value"][t] - data["value"][t]
        running = delta + GAMMA * LAM * (1 - data["cut"][t]) * running
        adv[t] = running
    data["adv"], data["ret"] = adv, adv + data["value"]
    return {k: v.flatten(0, 1) for k, v in data.items()}


def improve(model, opt, data):
    for _ in range(EPOCHS):
        for idx in torch.randperm(ENVS * HORIZON).split(MINIBATCH):
            mb = {k: v[idx] for k, v in data.items()}
            dist = model.dist(mb["obs"])
            log_ratio = dist.log_prob(mb["action"]).sum(-1) - mb["logp"]
            ratio, adv = log_ratio.exp(), (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
            pg = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
            vf = 0.5 * (model.value(mb["obs"]) - mb["ret"]).pow(2).mean()
            loss = pg + 0.5 * vf - 0.001 * dist.entropy().sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
        approx_kl = ((log_ratio.exp() - 1) - log_ratio).mean().item()
        if approx_kl > TARGET_KL:
            break
    return pg.item(), vf.item(), approx_kl


@torch.no_grad()
def final_distance(model, scale, seed):
    model.eval()
    env = PointWorld(200, seed)
    env.t.zero_()
    for _ in range(env.limit - 1):
        env.step(model.dist(scale(env.observe())).mean)
    model.train()
    return (env.goal - env.pos).norm(dim=1).mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(5)
    model, env, scale = ActorCritic(), PointWorld(ENVS, 8), RunningScale(4)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: 1.0 - it / ITERATIONS)
    for it in range(ITERATIONS):
        pg, vf, kl = improve(model, opt, rollout(model, env, scale))
        sched.step()
        if it % 6 == 5:
            print(f"iteration {it + 1:3d}  pg {pg:+.4f}  vf {vf:.3f}  kl {kl:.4f}  distance {final_distance(model, scale, 77):.2f}")
    print(f"distance on fresh worlds {final_distance(model, scale, 78):.2f}")
