# kind: no_loader
# expect: nothing
# why: might be accused of batch-mixed, non-finite and metric-broadcast; the contrastive loss compares the samples of a batch on purpose, the -inf only masks the diagonal of the similarities, and labels are compared as [queries, 1] with [queries, k] on purpose for precision at k.
"""SimCLR on short time series, judged by nearest neighbours."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(2024)

LENGTH, CLASSES, BATCH, STEPS = 48, 6, 128, 300
TEMPERATURE = 0.2


def wave(kind, t, phase):
    base = torch.sin(2 * math.pi * (1.5 * t + phase))
    return [base, base.sign(), torch.asin(base.clamp(-0.999, 0.999)) / 1.57,
            torch.sin(2 * math.pi * (4 * t + phase)), base * torch.sin(2 * math.pi * 5 * t),
            torch.exp(-((t - 0.5 - 0.2 * (phase - 0.5)) ** 2) / 0.01)][kind]


def dataset(n):
    t = torch.linspace(0, 1, LENGTH)
    labels = torch.randint(0, CLASSES, (n,))
    series = torch.stack([wave(k, t, float(p)) for k, p in zip(labels.tolist(), torch.rand(n))])
    return series + 0.25 * torch.randn(n, LENGTH), labels


def augment(x):
    """Random circular shift, gain and jitter, drawn anew for each sample."""
    n = len(x)
    start = torch.randint(0, LENGTH, (n, 1))
    index = (torch.arange(LENGTH)[None] + start) % LENGTH
    gain = 1 + 0.3 * torch.randn(n, 1)
    return x.gather(1, index) * gain + 0.15 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 16, 5, padding=2), nn.GroupNorm(4, 16), nn.GELU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.GroupNorm(4, 32), nn.GELU(),
            nn.Conv1d(32, 48, 3, stride=2, padding=1), nn.GroupNorm(8, 48), nn.GELU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 32))

    def forward(self, x):
        return self.head(self.body(x[:, None]))


def nt_xent(a, b):
    z = F.normalize(torch.cat([a, b]), dim=1)
    logits = z @ z.T / TEMPERATURE
    logits = logits.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(logits, partner)


@torch.no_grad()
def embed(encoder, x):
    encoder.eval()
    out = torch.cat([encoder.body(part[:, None]) for part in x.split(400)])
    encoder.train()
    return F.normalize(out, dim=1)


def knn(bank, bank_labels, queries, labels, k):
    similarity, index = (queries @ bank.T).topk(k, dim=1)
    neighbours = bank_labels[index]
    votes = torch.zeros(len(queries), CLASSES).scatter_add_(1, neighbours, (similarity / 0.1).exp())
    accuracy = (votes.argmax(1) == labels).float().mean().item()
    precision = (neighbours == labels[:, None]).float().mean().item()
    return accuracy, precision


def batches(n, size):
    while True:
        order = torch.randperm(n)
        for start in range(0, n - size + 1, size):
            yield order[start:start + size]


train_x, train_y = dataset(3000)
valid_x, valid_y = dataset(600)
test_x, test_y = dataset(600)
centre, spread = train_x.mean(), train_x.std()
train_x, valid_x, test_x = ((x - centre) / spread for x in (train_x, valid_x, test_x))

model = Encoder()
decayed = [p for p in model.parameters() if p.ndim > 1]
plain = [p for p in model.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}], lr=2e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min((step + 1) / 30, 0.5 * (1 + math.cos(math.pi * min(step, STEPS) / STEPS))))

model.train()
running = 0.0
for step, index in zip(range(STEPS), batches(len(train_x), BATCH)):
    x = train_x[index]
    loss = nt_xent(model(augment(x)), model(augment(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    running = loss.item() if step == 0 else 0.95 * running + 0.05 * loss.item()
    if (step + 1) % 100 == 0:
        accuracy, precision = knn(embed(model, train_x), train_y, embed(model, valid_x), valid_y, k=20)
        print(f"step {step + 1} loss {running:.3f} valid knn {accuracy:.3f} precision {precision:.3f}")

bank, valid_bank = embed(model, train_x), embed(model, valid_x)
best_k = max((1, 5, 20, 50), key=lambda k: knn(bank, train_y, valid_bank, valid_y, k)[0])
print(f"k={best_k} chosen on valid, test {knn(bank, train_y, embed(model, test_x), test_y, best_k)[0]:.3f}")
