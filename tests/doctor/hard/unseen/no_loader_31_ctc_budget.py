# kind: without a DataLoader
# expect: nothing
# like: accumulation-not-divided
# why: Utterances are gathered until a frame budget is full; the losses are sums on purpose and the gradients are
#      divided by the number of utterances before clipping and stepping, then set to None by hand. The tail is flushed.
import math
import random

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
SEED = 11
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

N_PHONES = 8            # 0 is the CTC blank
N_MEL = 12
FRAME_BUDGET = 300
PASSES = 9

voice = np.random.RandomState(5).randn(N_PHONES + 1, N_MEL).astype("float32")


def say(rng):
    """One utterance: a phone string and its noisy frames."""
    phones = rng.randint(1, N_PHONES + 1, size=rng.randint(2, 6))
    frames = []
    for p in phones:
        frames += [voice[p]] * rng.randint(2, 5)
        frames += [voice[0]] * rng.randint(1, 3)
    frames = np.stack(frames) + 0.4 * rng.randn(len(frames), N_MEL)
    return frames.astype("float32"), phones


class Listener(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.front = nn.Conv1d(N_MEL, hidden, 3, padding=1)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(hidden, N_PHONES + 1)

    def forward(self, frames):                      # (1, T, mel)
        h = F.relu(self.front(frames.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.head(self.drop(h)).log_softmax(-1)


def utterance_loss(model, frames, phones):
    logp = model(frames[None]).transpose(0, 1)       # (T, 1, C)
    return F.ctc_loss(logp, phones[None], torch.tensor([logp.size(0)]), torch.tensor([len(phones)]),
                      blank=0, reduction="sum", zero_infinity=True)


def packets(corpus, order, budget):
    """Yield lists of utterances whose frames fill the budget; the last may be smaller."""
    packet, frames = [], 0
    for i in order:
        packet.append(corpus[i])
        frames += len(corpus[i][0])
        if frames >= budget:
            yield packet
            packet, frames = [], 0
    if packet:
        yield packet


def collapse(path):
    out, last = [], 0
    for p in path:
        if p != last and p != 0:
            out.append(p)
        last = p
    return out


corpus_rng = np.random.RandomState(1)
everything = [say(corpus_rng) for _ in range(340)]
held, taught = everything[:60], everything[60:]
stacked = np.concatenate([f for f, _ in taught])
mean, std = stacked.mean(0), stacked.std(0)


def prepare(part):
    return [(torch.from_numpy((f - mean) / std), torch.from_numpy(p).long()) for f, p in part]


taught, held = prepare(taught), prepare(held)
model = Listener()
params = list(model.parameters())
opt = torch.optim.AdamW(params, lr=4e-3, weight_decay=1e-3)
updates = 0

for turn in range(PASSES):
    model.train()
    order = list(range(len(taught)))
    random.shuffle(order)
    seen, total = 0, 0.0
    for packet in packets(taught, order, FRAME_BUDGET):
        for frames, phones in packet:
            loss = utterance_loss(model, frames, phones)
            loss.backward()
            total += loss.item()
        for p in params:
            p.grad.div_(len(packet))
        nn.utils.clip_grad_norm_(params, 5.0)
        opt.step()
        for p in params:
            p.grad = None
        seen += len(packet)
        updates += 1

    model.eval()
    right, val = 0, 0.0
    with torch.no_grad():
        for frames, phones in held:
            val += utterance_loss(model, frames, phones).item()
            best = model(frames[None])[0].argmax(-1).tolist()
            right += collapse(best) == phones.tolist()
    print(f"pass {turn} updates {updates} train {total / seen:.3f} held {val / len(held):.3f} exact {right / len(held):.2f}")

assert math.isfinite(total)
