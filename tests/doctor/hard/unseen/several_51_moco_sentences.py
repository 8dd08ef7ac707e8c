# kind: several losses and optimizers
# expect: nothing
# like: frozen-parameter-moves
# why: The key encoder requires no gradient and still moves, but as the momentum average of the query encoder,
#      which is its purpose; it is a deep copy and no optimizer holds it.
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

PAD, WORDS, TOPICS, LENGTH = 0, 120, 6, 20


def sentences(n, seed):
    world = torch.Generator().manual_seed(500)
    topic_words = torch.softmax(1.5 * torch.randn(TOPICS, WORDS - 1, generator=world), 1)
    g = torch.Generator().manual_seed(seed)
    topic = torch.randint(TOPICS, (n,), generator=g)
    ids = torch.multinomial(topic_words[topic], LENGTH, replacement=True, generator=g) + 1
    lengths = torch.randint(10, LENGTH + 1, (n, 1), generator=g)
    return ids.masked_fill(torch.arange(LENGTH) >= lengths, PAD), topic


def word_dropout(ids, p=0.3):
    keep = torch.rand(ids.shape) > p
    keep[:, 0] = True
    return ids.masked_fill(~keep, PAD)


class SentenceEncoder(nn.Module):
    def __init__(self, dim=48, out=32):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim, padding_idx=PAD)
        self.mix = nn.Sequential(nn.Linear(dim, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, dim))
        self.project = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, out))

    def features(self, ids):
        mask = (ids != PAD).unsqueeze(-1).float()
        h = self.mix(self.embed(ids)) * mask
        return h.sum(1) / mask.sum(1)

    def forward(self, ids):
        return F.normalize(self.project(self.features(ids)), dim=1)


class MoCo(nn.Module):
    def __init__(self, queue=512, momentum=0.97, temperature=0.15):
        super().__init__()
        self.query = SentenceEncoder()
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(queue, 32), dim=1))
        self.cursor, self.momentum, self.temperature = 0, momentum, temperature

    @torch.no_grad()
    def drift(self):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(self.momentum).add_(q, alpha=1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue[self.cursor:self.cursor + len(keys)] = keys
        self.cursor = (self.cursor + len(keys)) % len(self.queue)

    def forward(self, one, two):
        q = self.query(one)
        with torch.no_grad():
            k = self.key(two)
        positive = (q * k).sum(1, keepdim=True)
        logits = torch.cat([positive, q @ self.queue.T], 1) / self.temperature
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long)), k


def main():
    torch.manual_seed(66)
    train = DataLoader(TensorDataset(*sentences(2048, seed=1)), batch_size=64, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(*sentences(512, seed=2)), batch_size=128)
    moco, probe = MoCo(), nn.Linear(48, TOPICS)
    table = list(moco.query.embed.parameters())
    layers = [*moco.query.mix.parameters(), *moco.query.project.parameters()]
    optimizers = {
        "table": torch.optim.Adam(table, lr=5e-3),
        "layers": torch.optim.SGD(layers, lr=0.05, momentum=0.9, weight_decay=1e-4),
        "probe": torch.optim.Adam(probe.parameters(), lr=1e-2),
    }
    for epoch in range(10):
        moco.train()
        probe.train()
        contrast = reading = 0.0
        for ids, topic in train:
            loss, keys = moco(word_dropout(ids), word_dropout(ids))
            optimizers["table"].zero_grad()
            optimizers["layers"].zero_grad()
            loss.backward()
            optimizers["table"].step()
            optimizers["layers"].step()
            moco.drift()
            moco.enqueue(keys)

            with torch.no_grad():
                feats = moco.query.features(ids)
            read = F.cross_entropy(probe(feats), topic)
            optimizers["probe"].zero_grad()
            read.backward()
            optimizers["probe"].step()
            contrast += loss.item() / len(train)
            reading += read.item() / len(train)

        moco.eval()
        probe.eval()
        with torch.no_grad():
            hits = sum((probe(moco.query.features(ids)).argmax(1) == topic).sum().item() for ids, topic in valid)
        print(f"epoch {epoch}: contrast {contrast:.3f} probe {reading:.3f} valid accuracy {hits / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
