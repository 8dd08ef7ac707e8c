# kind: no_loader
# expect: nothing
# why: might be accused of single-class-loss, same-batch-every-step, step-before-backward and frozen-parameter-moves; the positive key stands in column zero of every row, the LBFGS probe is a full-batch convex fit with a closure, and the key encoder moves only by lerp_.
"""Momentum contrast with a queue of keys, then logistic regression on the features by LBFGS."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(303)

SIGNAL, NUISANCE, DIM, CLASSES = 10, 6, 40, 7
BATCH, STEPS, QUEUE, TEMPERATURE, MOMENTUM = 128, 800, 1024, 0.2, 0.98

mix_signal = torch.randn(SIGNAL, DIM) / SIGNAL ** 0.5
mix_nuisance = torch.randn(NUISANCE, DIM) / NUISANCE ** 0.5
centres = 1.4 * torch.randn(CLASSES, SIGNAL)


def draw(n):
    y = torch.randint(0, CLASSES, (n,))
    signal = centres[y] + 0.7 * torch.randn(n, SIGNAL)
    return torch.tanh(signal @ mix_signal * 0.6) * 2 + 2.0 * torch.randn(n, NUISANCE) @ mix_nuisance, y


def view(x, scale):
    """Other lighting, same object: a fresh nuisance is added, and a little noise."""
    shift = torch.randn(len(x), NUISANCE) @ mix_nuisance / scale
    return x + 2.0 * shift + 0.1 * torch.randn_like(x)


def encoder():
    return nn.Sequential(nn.Linear(DIM, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64), nn.GELU())


def with_projector():
    return nn.ModuleDict({"body": encoder(), "project": nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))})


def embed(net, x):
    return F.normalize(net["project"](net["body"](x)), dim=1)


class KeyQueue:
    def __init__(self, size, width):
        self.keys, self.position = F.normalize(torch.randn(size, width), dim=1), 0

    def push(self, keys):
        end = self.position + len(keys)
        self.keys[self.position:end] = keys
        self.position = end % len(self.keys)


def contrastive(query_net, key_net, queue, x, scale):
    query = embed(query_net, view(x, scale))
    with torch.no_grad():
        key = embed(key_net, view(x, scale))
    positive = (query * key).sum(dim=1, keepdim=True)
    logits = torch.cat([positive, query @ queue.keys.T], dim=1) / TEMPERATURE
    return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long)), key


@torch.no_grad()
def body_features(net, x):
    net.eval()
    return torch.cat([net["body"](part) for part in x.split(500)])


def logistic_regression(features, labels, penalty):
    probe = nn.Linear(features.shape[1], CLASSES)
    nn.init.zeros_(probe.weight), nn.init.zeros_(probe.bias)
    optimizer = torch.optim.LBFGS(probe.parameters(), lr=1.0, max_iter=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(probe(features), labels) + penalty * probe.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    return probe.eval()


@torch.no_grad()
def accuracy(probe, features, labels):
    return (probe(features).argmax(dim=1) == labels).float().mean().item()


(train_x, train_y), (valid_x, valid_y), (test_x, test_y) = draw(5000), draw(800), draw(1500)
mean, std = train_x.mean(0), train_x.std(0)
train_x, valid_x, test_x = ((x - mean) / std for x in (train_x, valid_x, test_x))

query_net, key_net = with_projector(), with_projector()
key_net.load_state_dict(query_net.state_dict())
key_net.requires_grad_(False)
queue = KeyQueue(QUEUE, 32)
optimizer = torch.optim.AdamW(query_net.parameters(), lr=1e-3, weight_decay=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
order, smooth = torch.empty(0, dtype=torch.long), None
for step in range(STEPS):
    if len(order) < BATCH:
        order = torch.randperm(len(train_x))
    index, order = order[:BATCH], order[BATCH:]
    loss, keys = contrastive(query_net, key_net, queue, train_x[index], std)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    with torch.no_grad():
        for k, q in zip(key_net.parameters(), query_net.parameters()):
            k.lerp_(q, 1 - MOMENTUM)
    queue.push(keys)
    smooth = loss.item() if smooth is None else 0.97 * smooth + 0.03 * loss.item()
    if (step + 1) % 200 == 0:
        print(f"step {step + 1} loss {smooth:.3f}")

features = [body_features(query_net, x) for x in (train_x, valid_x, test_x)]
scale = features[0].mean(0), features[0].std(0) + 1e-6
features = [(f - scale[0]) / scale[1] for f in features]
probes = {penalty: logistic_regression(features[0], train_y, penalty) for penalty in (1e-4, 1e-3, 1e-2)}
best = max(probes, key=lambda penalty: accuracy(probes[penalty], features[1], valid_y))
print(f"penalty {best:g} valid {accuracy(probes[best], features[1], valid_y):.3f} test {accuracy(probes[best], features[2], test_y):.3f}")
