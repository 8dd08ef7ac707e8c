# kind: in a second phase
# expect: nothing
# like: accumulation-not-divided
# why: in the second phase four micro-batches make one step. The loss of each is a sum over its words divided by the
#   words of the whole cycle, so the gradient is the exact mean; a further division by four would be wrong.
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

WORDS, TAGS, IGNORE = 120, 5, -100
PHASES = [
    # name, steps, micro-batches per step, lr
    ("small", 150, 1, 2e-3),
    ("large", 100, 4, 1e-3),
]


def grammar(seed):
    rnd = random.Random(seed)
    lexicon = [rnd.randrange(TAGS) for _ in range(WORDS)]

    def one():
        n = rnd.randint(4, 22)
        words = [rnd.randrange(WORDS) for _ in range(n)]
        tags = []
        for i, w in enumerate(words):
            tag = lexicon[w]
            if i and words[i - 1] % 5 == 0:
                tag = (tag + 1) % TAGS
            if i + 1 < n and words[i + 1] % 7 == 0:
                tag = (tag + 2) % TAGS
            tags.append(tag)
        return torch.tensor(words) + 1, torch.tensor(tags)

    return one


class Tagger(nn.Module):
    def __init__(self, dim=56):
        super().__init__()
        self.emb = nn.Embedding(WORDS + 1, dim, padding_idx=0)
        self.drop = nn.Dropout(0.1)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, TAGS)

    def forward(self, words, lengths):
        x = pack_padded_sequence(self.drop(self.emb(words)), lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(x)[0], batch_first=True)
        return self.out(h)


def collate(items):
    words, tags = zip(*items)
    lengths = torch.tensor([len(w) for w in words])
    return (pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=IGNORE), lengths)


def micro_batches(items, size, rnd):
    while True:
        order = list(range(len(items)))
        rnd.shuffle(order)
        for at in range(0, len(order) - size + 1, size):
            yield collate([items[i] for i in order[at:at + size]])


summed = nn.CrossEntropyLoss(reduction="sum", ignore_index=IGNORE)


@torch.no_grad()
def word_accuracy(model, valid):
    model.eval()
    words, tags, lengths = collate(valid)
    guess = model(words, lengths).argmax(-1)
    real = tags != IGNORE
    return (guess[real] == tags[real]).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    make = grammar(seed=3)
    corpus = [make() for _ in range(2400)]
    train, valid = corpus[:2000], corpus[2000:]
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=PHASES[0][3])
    stream = micro_batches(train, 16, random.Random(4))

    for name, steps, micro, lr in PHASES:
        for group in opt.param_groups:
            group["lr"] = lr
        for step in range(1, steps + 1):
            model.train()
            cycle = [next(stream) for _ in range(micro)]
            count = sum(int(lengths.sum()) for _, _, lengths in cycle)
            opt.zero_grad()
            shown = 0.0
            for words, tags, lengths in cycle:
                loss = summed(model(words, lengths).flatten(0, 1), tags.flatten()) / count
                loss.backward()
                shown += loss.item()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if step % 50 == 0:
                print(f"{name} {step:3d}  loss per word {shown:.4f}  valid {word_accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
