# kind: without a DataLoader
# expect: nothing
# why: Truncated back-propagation over ordered streams: sequential order and a carried (detached) state are intended, the gradient is accumulated over segments of unequal length with sum losses divided by the true number of valid targets.
"""Character-stream model trained by truncated BPTT over ragged segments."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(51)

VOCAB, STREAMS, SEGMENTS, ACCUM = 12, 24, (16, 12, 7), 3


class StreamModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, tokens, state):
        h, state = self.rnn(self.embed(tokens), state)
        return self.out(h), state


def make_streams(length, g):
    """Second-order source; some positions are transmission gaps (-100 as target)."""
    table = torch.softmax(2.5 * torch.randn(VOCAB, VOCAB, VOCAB, generator=g), -1)
    seq = [torch.randint(VOCAB, (STREAMS,), generator=g) for _ in range(2)]
    for _ in range(length - 2):
        seq.append(torch.multinomial(table[seq[-2], seq[-1]], 1, generator=g)[:, 0])
    tokens = torch.stack(seq)
    targets = tokens[1:].clone()
    targets[torch.rand(targets.shape, generator=g) < 0.1] = -100
    return tokens[:-1], targets


def segments(tokens, targets):
    start, i = 0, 0
    while start < len(tokens):
        stop = min(start + SEGMENTS[i % len(SEGMENTS)], len(tokens))
        yield tokens[start:stop], targets[start:stop]
        start, i = stop, i + 1


def grouped(items, size):
    items = list(items)
    return [items[i:i + size] for i in range(0, len(items), size)]


@torch.no_grad()
def bits(model, tokens, targets):
    model.eval()
    logits, _ = model(tokens, None)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
    model.train()
    return loss.item() / 0.6931


def main():
    g = torch.Generator().manual_seed(12)
    tokens, targets = make_streams(1000, g)
    cut = 35 * 24
    held = tokens[cut:], targets[cut:]
    tokens, targets = tokens[:cut], targets[:cut]
    model = StreamModel()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)

    for epoch in range(6):
        state, nats, seen = None, 0.0, 0
        for group in grouped(segments(tokens, targets), ACCUM):
            valid = sum((t != -100).sum().item() for _, t in group)
            for x, t in group:
                logits, state = model(x, state)
                loss = F.cross_entropy(logits.flatten(0, 1), t.flatten(),
                                       ignore_index=-100, reduction="sum")
                (loss / valid).backward()
                state = state.detach()
                nats += loss.item()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            seen += valid
        print(f"epoch {epoch} train bits {nats / seen / 0.6931:.3f} held-out {bits(model, *held):.3f}")


if __name__ == "__main__":
    main()
