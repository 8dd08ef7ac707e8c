# kind: without a DataLoader
# expect: accumulation-tail
# why: A pass of the patient stream has 71 micro-batches and the step comes every 4th; the last three of each pass
#      are thrown away by the zero_grad at the start of the next pass.
import argparse

import torch
from torch import nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--patients", type=int, default=2104)
    p.add_argument("--valid", type=int, default=400)
    p.add_argument("--micro", type=int, default=24)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--passes", type=int, default=12)
    p.add_argument("--bins", type=int, default=10)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=19)
    return p.parse_args()


def cohort(n, bins, gen):
    cov = torch.randn(n, 9, generator=gen) * torch.tensor([1.0, 4.0, 0.3, 2.0, 1.0, 9.0, 1.0, 0.5, 1.0])
    risk = 0.8 * cov[:, 0] - 0.15 * cov[:, 1] + 0.9 * torch.tanh(cov[:, 3]) + 0.05 * cov[:, 5]
    death = torch.empty(n).exponential_(1.0, generator=gen) * torch.exp(-risk) * 4
    censor = torch.empty(n).uniform_(1, bins, generator=gen)
    seen = death <= censor
    when = torch.minimum(death, censor).clamp(max=bins - 1e-3).long()
    return cov, when, seen.float()


def patient_stream(table, micro, gen):
    cov, when, seen = table
    order = torch.randperm(len(cov), generator=gen)
    while len(order):
        take, order = order[:micro], order[micro:]
        yield cov[take], when[take], seen[take]


class Hazard(nn.Module):
    def __init__(self, n_in, bins):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.SiLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.SiLU(),
                                 nn.Linear(64, bins))

    def forward(self, cov):
        return self.net(cov)


def discrete_nll(logits, when, seen):
    """Bernoulli likelihood of every interval a patient was at risk in; mean over patients."""
    bins = logits.size(1)
    at_risk = (torch.arange(bins)[None] <= when[:, None]).float()
    event = F.one_hot(when, bins).float() * seen[:, None]
    per = F.binary_cross_entropy_with_logits(logits, event, reduction="none")
    return (per * at_risk).sum(1).mean()


def concordance(logits, when, seen):
    score = torch.sigmoid(logits).cumsum(1)[:, -1]
    earlier = (when[:, None] < when[None]) & (seen[:, None] > 0)
    good = (score[:, None] > score[None]) & earlier
    return (good.sum() / earlier.sum()).item()


def main():
    a = parse()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    gen = torch.Generator().manual_seed(a.seed)
    cov, when, seen = cohort(a.patients, a.bins, gen)
    mix = torch.randperm(a.patients, generator=gen)
    va, tr = mix[:a.valid], mix[a.valid:]
    mean, std = cov[tr].mean(0), cov[tr].std(0)
    cov = (cov - mean) / std
    train = (cov[tr], when[tr], seen[tr])
    valid = (cov[va], when[va], seen[va])

    model = Hazard(cov.size(1), a.bins)
    opt = torch.optim.RAdam(model.parameters(), lr=a.lr, weight_decay=1e-4)
    updates = 0
    for turn in range(a.passes):
        model.train()
        opt.zero_grad()
        total, count = 0.0, 0
        for i, (x, t, e) in enumerate(patient_stream(train, a.micro, gen), start=1):
            loss = discrete_nll(model(x), t, e)
            (loss / a.accumulate).backward()
            total += loss.item() * len(x)
            count += len(x)
            if i % a.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                opt.step()
                opt.zero_grad()
                updates += 1
        model.eval()
        with torch.no_grad():
            out = model(valid[0])
            v = discrete_nll(out, valid[1], valid[2]).item()
            c = concordance(out, valid[1], valid[2])
        print(f"pass {turn:2d}  updates {updates:3d}  train {total / count:.4f}  valid {v:.4f}  c-index {c:.3f}")


if __name__ == "__main__":
    main()
