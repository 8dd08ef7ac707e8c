# kind: several losses and optimizers
# expect: schedule-wrong-unit
# why: The forecaster's cosine schedule is planned in epochs (T_max = epochs) but is stepped with every batch
#      next to the critic's schedule, which is rightly planned in batches.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

CFG = {
    "seed": 5,
    "epochs": 15,
    "batch": 64,
    "past": 36,
    "future": 12,
    "adv_weight": 0.05,
    "forecaster": {"lr": 3e-3, "schedule": "cosine"},
    "critic": {"lr": 1e-3, "schedule": "linear"},
}


def make_windows(n, gen):
    t = torch.arange(CFG["past"] + CFG["future"], dtype=torch.float32)
    period = 8 + 10 * torch.rand(n, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    slope = 0.02 * torch.randn(n, 1, generator=gen)
    y = torch.sin(2 * math.pi * t / period + phase) + slope * t + 0.1 * torch.randn(n, len(t), generator=gen)
    return y


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.GELU(), nn.Conv1d(16, 16, 5, padding=2), nn.GELU())
        self.head = nn.Linear(16 * CFG["past"], CFG["future"])

    def forward(self, past):
        return self.head(self.conv(past.unsqueeze(1)).flatten(1))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(CFG["past"] + CFG["future"], 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, past, future):
        return self.net(torch.cat([past, future], 1)).squeeze(1)


def make_schedule(kind, opt, steps_per_epoch):
    if kind == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=CFG["epochs"])
    total = CFG["epochs"] * steps_per_epoch
    return torch.optim.lr_scheduler.LinearLR(opt, start_factor=1.0, end_factor=0.1, total_iters=total)


def main():
    torch.manual_seed(CFG["seed"])
    gen = torch.Generator().manual_seed(CFG["seed"])
    train, valid = make_windows(1600, gen), make_windows(400, gen)
    mean, std = train.mean(), train.std()
    train, valid = (train - mean) / std, (valid - mean) / std
    steps = len(train) // CFG["batch"]

    nets = {"forecaster": Forecaster(), "critic": Critic()}
    opts = {k: torch.optim.Adam(n.parameters(), lr=CFG[k]["lr"], betas=(0.5, 0.99)) for k, n in nets.items()}
    schedules = {k: make_schedule(CFG[k]["schedule"], o, steps) for k, o in opts.items()}
    f, c = nets["forecaster"], nets["critic"]

    for epoch in range(CFG["epochs"]):
        for net in nets.values():
            net.train()
        log = {"mse": 0.0, "adv": 0.0, "critic": 0.0}
        order = torch.randperm(len(train))
        for i in range(steps):
            window = train[order[i * CFG["batch"]:(i + 1) * CFG["batch"]]]
            past, future = window.split([CFG["past"], CFG["future"]], 1)
            pred = f(past)

            real, fake = c(past, future), c(past, pred.detach())
            loss_c = (F.softplus(-real) + F.softplus(fake)).mean()
            opts["critic"].zero_grad()
            loss_c.backward()
            opts["critic"].step()

            mse, adv = F.mse_loss(pred, future), F.softplus(-c(past, pred)).mean()
            opts["forecaster"].zero_grad()
            (mse + CFG["adv_weight"] * adv).backward()
            opts["forecaster"].step()

            for schedule in schedules.values():
                schedule.step()
            for k, v in (("mse", mse), ("adv", adv), ("critic", loss_c)):
                log[k] += v.item() / steps

        f.eval()
        with torch.no_grad():
            past, future = valid.split([CFG["past"], CFG["future"]], 1)
            val = F.mse_loss(f(past), future).item()
        rates = " ".join(f"{k} {o.param_groups[0]['lr']:.1e}" for k, o in opts.items())
        print(f"{epoch:2d} " + " ".join(f"{k} {v:.3f}" for k, v in log.items()) + f" | valid {val:.3f} | {rates}")


main()
