# kind: no_loader
# expect: nothing
# why: Might be accused of not-shuffled, graph-retained, batch-first or ragged-mean: the streams must be read in order because the hidden state is carried over (detached), the layout is time-first throughout and losses are weighted by tokens.
"""Character model over continuous text: truncated BPTT with carried LSTM state and tied input/output weights."""
import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn

NOUNS = ["cat", "dog", "bird", "old man", "child", "river", "farmer", "queen", "small horse", "wolf"]
VERBS = {"sees": "saw", "likes": "liked", "finds": "found", "hears": "heard"}


def write_text(n_sentences, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(n_sentences):
        present = rng.random() < 0.5
        verb = rng.choice(list(VERBS))
        opening = "today" if present else "yesterday"
        out.append(f"{opening} the {rng.choice(NOUNS)} {verb if present else VERBS[verb]} {rng.randint(2, 999)} {rng.choice(NOUNS)}s. ")
    return "".join(out)


class CharLM(nn.Module):
    def __init__(self, vocab, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim)
        self.drop = nn.Dropout(0.1)
        self.decode = nn.Linear(dim, vocab)
        self.decode.weight = self.embed.weight
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        nn.init.zeros_(self.decode.bias)

    def forward(self, tokens, state):
        out, state = self.rnn(self.drop(self.embed(tokens)), state)
        return self.decode(self.drop(out)), state

    def start(self, batch):
        zeros = torch.zeros(1, batch, self.rnn.hidden_size)
        return zeros, zeros.clone()


def columns(ids, batch):
    """Cut one long text into `batch` parallel streams, time along dim 0."""
    steps = len(ids) // batch
    return ids[: steps * batch].view(batch, steps).t().contiguous()


def windows(streams, bptt):
    last = len(streams) - 1
    for i in range(0, last, bptt):
        n = min(bptt, last - i)
        yield streams[i : i + n], streams[i + 1 : i + 1 + n]


def detach(state):
    return tuple(part.detach() for part in state)


def train_epoch(model, optimizer, streams, bptt, alpha):
    model.train()
    state, total, tokens = model.start(streams.shape[1]), 0.0, 0
    for inputs, targets in windows(streams, bptt):
        logits, state = model(inputs, detach(state))
        ce = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss = ce + alpha * logits.logsumexp(-1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total, tokens = total + ce.item() * targets.numel(), tokens + targets.numel()
    return total / tokens


@torch.no_grad()
def evaluate(model, streams, bptt):
    model.eval()
    state, total, tokens = model.start(streams.shape[1]), 0.0, 0
    for inputs, targets in windows(streams, bptt):
        logits, state = model(inputs, state)
        total += F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
        tokens += targets.numel()
    return total / tokens


@torch.no_grad()
def babble(model, chars, seed, length=120):
    model.eval()
    gen = torch.Generator().manual_seed(seed)
    state, token, text = model.start(1), torch.tensor([[chars.index("t")]]), "t"
    for _ in range(length):
        logits, state = model(token, state)
        token = torch.multinomial(logits[0].softmax(-1), 1, generator=gen)
        text += chars[token.item()]
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--bptt", type=int, default=32)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=1e-4, help="weight of the penalty on the log normaliser")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(77)

    texts = {"train": write_text(750, 1), "valid": write_text(120, 2), "test": write_text(120, 3)}
    chars = sorted(set(texts["train"]))
    ids = {k: torch.tensor([chars.index(c) for c in v]) for k, v in texts.items()}
    train, valid, test = columns(ids["train"], args.batch), columns(ids["valid"], 8), columns(ids["test"], 8)

    model = CharLM(len(chars))
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.75)
    for epoch in range(args.epochs):
        fitted = train_epoch(model, optimizer, train, args.bptt, args.alpha)
        schedule.step()
        print(f"epoch {epoch + 1}  train {fitted:.4f}  valid {evaluate(model, valid, 50):.4f} nats per character")
    print(f"test {evaluate(model, test, 50):.4f}")
    print(babble(model, chars, seed=4))


if __name__ == "__main__":
    main()
