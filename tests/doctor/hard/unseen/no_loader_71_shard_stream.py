# kind: without a DataLoader
# expect: accumulation-tail
# also: gradients-discarded
# why: a shard gives 11 micro-batches and a step is made after every 4; the 3 left over at the end of a shard are thrown away by the zero_grad at the start of the next one. As a shard is ordered by length, these are always the long documents.
"""Topic classifier on a stream of shards; documents of similar length share a micro-batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(41)

VOCAB, TOPICS, MICRO = 600, 6, 16


def document(length, gen):
    """Short texts use colloquial words, long ones the technical words of the same topic."""
    topic = int(torch.randint(0, TOPICS, (), generator=gen))
    words = torch.randint(0, VOCAB // 2, (length,), generator=gen)
    start = (0 if length < 40 else VOCAB // 2) + topic * (VOCAB // 2 // TOPICS)
    own = torch.rand(length, generator=gen) < 0.25
    words[own] = start + torch.randint(0, VOCAB // 2 // TOPICS, (int(own.sum()),), generator=gen)
    return words, topic


def shards(n_shards, gen, size=11 * MICRO):
    for _ in range(n_shards):
        lengths = torch.randint(10, 50, (size,), generator=gen)
        yield [document(int(n), gen) for n in lengths]


def collate(docs):
    tokens = torch.cat([w for w, _ in docs])
    offsets = torch.tensor([0] + [len(w) for w, _ in docs[:-1]]).cumsum(0)
    return tokens, offsets, torch.tensor([t for _, t in docs])


def micro_batches(shard):
    ordered = sorted(shard, key=lambda d: len(d[0]))
    for i in range(0, len(ordered), MICRO):
        yield collate(ordered[i:i + MICRO])


class Topics(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, dim, mode="mean")
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, TOPICS))

    def forward(self, tokens, offsets):
        return self.net(self.bag(tokens, offsets))


def train_on_shard(model, opt, shard, accumulate):
    opt.zero_grad()
    seen, total = 0, 0.0
    for tokens, offsets, y in micro_batches(shard):
        loss = F.cross_entropy(model(tokens, offsets), y)
        (loss / accumulate).backward()
        seen += 1
        total += loss.item()
        if seen % accumulate == 0:
            opt.step()
            opt.zero_grad()
    return total / seen


@torch.no_grad()
def accuracy(model, docs):
    tokens, offsets, y = collate(docs)
    return (model(tokens, offsets).argmax(1) == y).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(6)
    held = [d for s in shards(6, torch.Generator().manual_seed(60)) for d in s]
    short = [d for d in held if len(d[0]) < 40]
    long = [d for d in held if len(d[0]) >= 40]
    model = Topics()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for n, shard in enumerate(shards(75, gen), 1):
        loss = train_on_shard(model, opt, shard, accumulate=4)
        if n % 15 == 0:
            print(f"shard {n:3d}  loss {loss:.3f}  all {accuracy(model, held):.3f}  "
                  f"short {accuracy(model, short):.3f}  long {accuracy(model, long):.3f}")


if __name__ == "__main__":
    main()
