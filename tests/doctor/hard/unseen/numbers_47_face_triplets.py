# kind: numbers
# expect: non-finite
# why: the positive is drawn from the whole class and is now and then the anchor itself; the square root in
#   the hand-written distance then has the derivative 0 * inf and the weights become nan.
import torch
from torch import nn

torch.set_num_threads(1)

SETTINGS = dict(identities=10, per_identity=500, raw=24, embed=12, triplets=12, steps=400, margin=0.6, lr=1e-3)


def photographs(s, generator):
    person = torch.randn(s["identities"], 6, generator=generator)
    mix = torch.randn(6, s["raw"], generator=generator)
    label = torch.arange(s["identities"]).repeat_interleave(s["per_identity"])
    pose = torch.randn(len(label), 6, generator=generator) * 0.6
    x = torch.tanh((person[label] + pose) @ mix) + 0.2 * torch.randn(len(label), s["raw"], generator=generator)
    return x, label


class TripletSampler:
    def __init__(self, label, count, generator):
        self.count, self.generator = count, generator
        self.members = [torch.nonzero(label == c).flatten() for c in label.unique()]

    def _pick(self, pool):
        return pool[torch.randint(len(pool), (1,), generator=self.generator)]

    def __call__(self):
        anchor, positive, negative = [], [], []
        for _ in range(self.count):
            c, other = torch.randperm(len(self.members), generator=self.generator)[:2].tolist()
            anchor.append(self._pick(self.members[c]))
            positive.append(self._pick(self.members[c]))
            negative.append(self._pick(self.members[other]))
        return torch.cat(anchor), torch.cat(positive), torch.cat(negative)


class Embedder(nn.Module):
    def __init__(self, raw, embed):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(raw, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                                    nn.Linear(64, embed))

    def forward(self, x):
        z = self.layers(x)
        return z / (z.pow(2).sum(1, keepdim=True) + 1e-8).sqrt()


def distance(a, b):
    return (a - b).pow(2).sum(dim=1).sqrt()


def triplet_loss(za, zp, zn, margin):
    return torch.clamp(distance(za, zp) - distance(za, zn) + margin, min=0).mean()


@torch.no_grad()
def centroid_accuracy(model, x, label, vx, vlabel):
    model.eval()
    z, vz = model(x), model(vx)
    centre = torch.stack([z[label == c].mean(0) for c in label.unique()])
    guess = torch.cdist(vz, centre).argmin(1)
    model.train()
    return (guess == vlabel).float().mean().item()


def main(s):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(7)
    x, label = photographs(s, g)
    order = torch.randperm(len(x), generator=g)
    tr, va = order[:4000], order[4000:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    tx, tl, vx, vl = x[tr], label[tr], x[va], label[va]
    draw = TripletSampler(tl, s["triplets"], g)
    model = Embedder(s["raw"], s["embed"])
    optimizer = torch.optim.Adam(model.parameters(), lr=s["lr"])
    window = []
    for step in range(1, s["steps"] + 1):
        a, p, n = draw()
        loss = triplet_loss(model(tx[a]), model(tx[p]), model(tx[n]), s["margin"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        window.append(loss.item())
        if step % 20 == 0:
            acc = centroid_accuracy(model, tx, tl, vx, vl)
            print(f"step {step:3d} triplet {sum(window) / len(window):.4f} accuracy {acc:.3f}")
            window.clear()


main(SETTINGS)
