# kind: numbers
# expect: nothing
# like: graph-kept
# why: losses with graphs are collected only inside a chunk (truncated backpropagation through time), joined in one
#      backward and dropped; the state is detached between chunks, and the long history keeps floats.
"""Truncated BPTT over long keystroke streams with an LSTM cell."""
import argparse

import torch
from torch import nn


def streams(n, length, seed, keys=12):
    g = torch.Generator().manual_seed(seed)
    table = torch.randn(keys, keys, keys, generator=torch.Generator().manual_seed(777)) * 2.5
    table = table.softmax(-1)
    out = [torch.randint(0, keys, (n,), generator=g), torch.randint(0, keys, (n,), generator=g)]
    for _ in range(length - 1):
        out.append(torch.multinomial(table[out[-2], out[-1]], 1, generator=g).squeeze(1))
    return torch.stack(out, 1)


class StreamModel(nn.Module):
    def __init__(self, keys=12, hidden=64):
        super().__init__()
        self.hidden = hidden
        self.emb = nn.Embedding(keys, 32)
        self.cell = nn.LSTMCell(32, hidden)
        self.out = nn.Linear(hidden, keys)

    def start(self, n):
        return torch.zeros(n, self.hidden), torch.zeros(n, self.hidden)

    def forward(self, key, state):
        state = self.cell(self.emb(key), state)
        return self.out(state[0]), state


def train_epoch(model, data, chunk, batch, optimizer, history):
    model.train()
    for rows in torch.randperm(len(data)).split(batch):
        seq = data[rows]
        state = model.start(len(rows))
        for begin in range(0, seq.shape[1] - 1, chunk):
            state = tuple(s.detach() for s in state)
            pending = []
            for t in range(begin, min(begin + chunk, seq.shape[1] - 1)):
                logits, state = model(seq[:, t], state)
                pending.append(nn.functional.cross_entropy(logits, seq[:, t + 1]))
            loss = torch.stack(pending).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            history.append(loss.item())


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    state, total = model.start(len(data)), 0.0
    for t in range(data.shape[1] - 1):
        logits, state = model(data[:, t], state)
        total += nn.functional.cross_entropy(logits, data[:, t + 1]).item()
    return total / (data.shape[1] - 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--chunk", type=int, default=16)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(18)
    train, valid = streams(256, 128, 1), streams(128, 128, 2)
    model = StreamModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    history = []
    for epoch in range(args.epochs):
        before = len(history)
        train_epoch(model, train, args.chunk, 64, optimizer, history)
        recent = history[before:]
        print(f"epoch {epoch} train {sum(recent) / len(recent):.4f} valid {evaluate(model, valid):.4f}")


if __name__ == "__main__":
    main()
