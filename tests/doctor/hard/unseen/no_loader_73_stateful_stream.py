# kind: without a DataLoader
# expect: nothing
# why: truncated back-propagation over parallel streams read in order; the state is carried and detached between chunks, gradients are cleared by hand, and the order is not shuffled because the state must fit. Evaluation runs on later text with a state of its own.
"""Character model with carried state on a synthetic bracket language."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(23)

OPEN, CLOSE, FILL = "([{", ")]}", "abc"
ALPHABET = OPEN + CLOSE + FILL
CODE = {c: i for i, c in enumerate(ALPHABET)}


def text(n, seed):
    rng = np.random.default_rng(seed)
    stack, out = [], []
    for _ in range(n):
        r = rng.random()
        if r < 0.25 and len(stack) < 5:
            stack.append(rng.integers(3))
            out.append(OPEN[stack[-1]])
        elif r < 0.6 and stack:
            out.append(CLOSE[stack.pop()])
        else:
            out.append(FILL[len(stack) % 3])
    return torch.tensor([CODE[c] for c in out])


def lanes(ids, n_lanes):
    per = len(ids) // n_lanes
    return ids[:per * n_lanes].view(n_lanes, per)


def chunks(ids, length):
    for start in range(0, ids.shape[1] - length, length):
        yield ids[:, start:start + length], ids[:, start + 1:start + length + 1]


class CharModel(nn.Module):
    def __init__(self, hidden=64, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), 16)
        self.rnn = nn.LSTM(16, hidden, batch_first=True)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, len(ALPHABET))

    def forward(self, ids, state=None):
        h, state = self.rnn(self.embed(ids), state)
        return self.out(self.drop(h)), state


@torch.no_grad()
def bits(model, ids):
    model.eval()
    state, total, count = None, 0.0, 0
    for x, y in chunks(ids, 50):
        logits, state = model(x, state)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
        count += y.numel()
    model.train()
    return total / count / np.log(2)


def main():
    ids = text(64000, seed=1)
    train, val = lanes(ids[:54000], 18), lanes(ids[54000:], 10)
    model = CharModel()
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(1, 3):
        state = None
        for x, y in chunks(train, 25):
            if state is not None:
                state = tuple(s.detach() for s in state)
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            for p in model.parameters():
                p.grad = None
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            if step % 60 == 0:
                print(f"epoch {epoch} step {step:4d} loss {loss.item():.3f} val bits {bits(model, val):.3f}")


if __name__ == "__main__":
    main()
