# kind: in a second phase
# expect: nothing
# like: stale-optimizer
# why: the embedding tables are replaced by larger ones in the second phase, but the new parameters take the places of the
#      old ones in the optimizer's groups and their Adam moments are carried over with zeros for the new rows.
"""Word vectors (CBOW, full softmax) whose vocabulary grows when a second corpus arrives."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
TOPIC = 10  # words per topic


def corpus(windows, topics, generator):
    """Five-word windows; all words of a window come from one topic, with some noise."""
    topic = torch.randint(0, topics, (windows, 1), generator=generator)
    words = topic * TOPIC + torch.randint(0, TOPIC, (windows, 5), generator=generator)
    noise = torch.randint(0, topics * TOPIC, words.shape, generator=generator)
    words = torch.where(torch.rand(words.shape, generator=generator) < 0.1, noise, words)
    return words[:, [0, 1, 3, 4]], words[:, 2]


class CBOW(nn.Module):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.word = nn.Parameter(0.3 * torch.randn(vocab, dim))
        self.context = nn.Parameter(0.3 * torch.randn(vocab, dim))

    def forward(self, around):
        return F.embedding(around, self.context).mean(1) @ self.word.t()


@torch.no_grad()
def grow(model, optimizer, extra):
    """Adds `extra` rows to both tables and makes the optimizer follow."""
    for name in ("word", "context"):
        old = getattr(model, name)
        fresh = 0.3 * torch.randn(extra, old.size(1))
        new = nn.Parameter(torch.cat([old.detach(), fresh]))
        setattr(model, name, new)
        for group in optimizer.param_groups:
            group["params"] = [new if p is old else p for p in group["params"]]
        state = optimizer.state.pop(old)
        for key in ("exp_avg", "exp_avg_sq"):
            state[key] = torch.cat([state[key], torch.zeros_like(fresh)])
        optimizer.state[new] = state


def fit(name, model, optimizer, train, valid, epochs, batch=64):
    around, centre = train
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(centre)).split(batch):
            loss = F.cross_entropy(model(around[idx]), centre[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            held_out = F.cross_entropy(model(valid[0]), valid[1]).item()
        print(f"{name} epoch {epoch}: train {total / len(centre):.3f}  valid {held_out:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--new-topics", type=int, default=6)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()
    torch.manual_seed(27)
    generator = torch.Generator().manual_seed(27)

    model = CBOW(args.topics * TOPIC)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    fit("first", model, optimizer, corpus(7680, args.topics, generator), corpus(1024, args.topics, generator), 4)

    everything = args.topics + args.new_topics
    grow(model, optimizer, args.new_topics * TOPIC)
    fit("second", model, optimizer, corpus(7680, everything, generator), corpus(1024, everything, generator), 4)

    vectors = F.normalize(model.word.detach(), dim=1)
    nearest = (vectors @ vectors.t()).fill_diagonal_(-1).argmax(1)
    same = (nearest // TOPIC == torch.arange(len(vectors)) // TOPIC).float().mean()
    print(f"nearest neighbour of the same topic: {same:.3f}")


if __name__ == "__main__":
    main()
