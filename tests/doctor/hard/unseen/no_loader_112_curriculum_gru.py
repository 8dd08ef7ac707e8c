# kind: no_loader
# expect: nothing
# why: might be accused of not-shuffled, batch-first and diverging-loss; the samples are sorted by difficulty only to open the pool bit by bit and are drawn at random inside it, the GRU is given [time, batch, features], and the loss may rise when harder samples come in.
"""Curriculum: clean sequences first, noisier ones join as training goes on."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(404)

TIME, FEATURES, CLASSES = 16, 6, 5
STEPS, BATCH = 500, 64


def make_sequences(n, motifs):
    """A motif of five steps hidden at a random place; the noise level is the difficulty."""
    labels = torch.randint(0, CLASSES, (n,))
    noise = 0.4 + 1.6 * torch.rand(n)
    x = noise[:, None, None] * torch.randn(n, TIME, FEATURES)
    start = torch.randint(0, TIME - 5, (n,))
    for i in range(n):
        x[i, start[i]:start[i] + 5] += motifs[labels[i]]
    return x, labels, noise


class MotifNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(FEATURES, hidden, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.out = nn.Linear(2 * hidden, CLASSES)

    def forward(self, x):
        states, _ = self.rnn(x.transpose(0, 1))
        return self.out(self.norm(states.amax(dim=0)))


class Pool:
    """Deals shuffled batches from the easiest fraction of the samples."""

    def __init__(self, difficulty, batch, full_after):
        self.ranked = difficulty.argsort()
        self.batch, self.full_after = batch, full_after
        self.queue = torch.empty(0, dtype=torch.long)

    def fraction(self, step):
        return min(1.0, 0.25 + 0.75 * step / self.full_after)

    def deal(self, step):
        if len(self.queue) < self.batch:
            opened = self.ranked[: int(self.fraction(step) * len(self.ranked))]
            self.queue = opened[torch.randperm(len(opened))]
        index, self.queue = self.queue[: self.batch], self.queue[self.batch:]
        return index


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = torch.cat([model(part) for part in x.split(250)])
    model.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


motifs = 1.2 * torch.randn(CLASSES, 5, FEATURES)
train_x, train_y, train_noise = make_sequences(3200, motifs)
valid_x, valid_y, _ = make_sequences(600, motifs)
test_x, test_y, _ = make_sequences(600, motifs)
mean, std = train_x.mean((0, 1)), train_x.std((0, 1))
train_x, valid_x, test_x = ((x - mean) / std for x in (train_x, valid_x, test_x))

model = MotifNet()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=STEPS)
pool = Pool(train_noise, BATCH, full_after=STEPS // 2)
best_loss, best_state = float("inf"), None
recent = []

model.train()
for step in range(STEPS):
    index = pool.deal(step)
    loss = F.cross_entropy(model(train_x[index]), train_y[index])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    recent.append(loss.item())
    if (step + 1) % 50 == 0:
        valid_loss, accuracy = evaluate(model, valid_x, valid_y)
        print(f"step {step + 1} pool {pool.fraction(step):.2f} train {sum(recent) / len(recent):.3f} "
              f"valid {valid_loss:.3f} accuracy {accuracy:.3f}")
        recent.clear()
        if valid_loss < best_loss:
            best_loss = valid_loss
            best_state = {name: value.clone() for name, value in model.state_dict().items()}

model.load_state_dict(best_state)
print("test loss %.3f accuracy %.3f" % evaluate(model, test_x, test_y))
