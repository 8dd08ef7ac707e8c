# kind: inside frameworks
# expect: nothing
# like: padding-in-loss
# why: targets of padded positions are 0 (a real tag) and cross-entropy has no ignore_index, but the loss of each position
#      is multiplied by the mask and divided by the number of real positions, so padding does not count.
"""Slot tagging of utterances of different lengths, with a GRU and Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
VOCAB, TAGS = 80, 6  # token 0 is padding


class Utterances(Dataset):
    """The tag of a word depends on the word and on the word before it."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            n = int(torch.randint(5, 19, (1,), generator=g))
            words = torch.randint(1, VOCAB, (n,), generator=g)
            before = torch.cat([torch.zeros(1, dtype=torch.long), words[:-1]])
            tags = (words % 3) + 3 * (before % 2)
            self.items.append((words, tags))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    lengths = torch.tensor([len(w) for w, _ in items])
    words = pad_sequence([w for w, _ in items], batch_first=True)
    tags = pad_sequence([t for _, t in items], batch_first=True)
    return words, tags, lengths


class Tagger(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(2 * dim, TAGS)

    def forward(self, words, lengths):
        e = self.embed(words)
        packed = pack_padded_sequence(e, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=words.size(1))
        return self.head(torch.cat([h, e], dim=-1))


def masked_loss(logits, tags, mask):
    per_position = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    return (per_position * mask).sum() / mask.sum()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = count = 0
    for words, tags, lengths in loader:
        mask = words != 0
        hits += ((model(words, lengths).argmax(-1) == tags) & mask).sum().item()
        count += mask.sum().item()
    return hits / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()

    set_seed(23)
    accelerator = Accelerator(cpu=True)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(
        model, optimizer,
        DataLoader(Utterances(2048, seed=100), batch_size=32, shuffle=True, collate_fn=collate),
        DataLoader(Utterances(512, seed=200), batch_size=128, collate_fn=collate),
    )
    for epoch in range(args.epochs):
        model.train()
        total = positions = 0.0
        for words, tags, lengths in train_loader:
            mask = (words != 0).float()
            loss = masked_loss(model(words, lengths), tags, mask)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * mask.sum().item()
            positions += mask.sum().item()
        accelerator.print(f"epoch {epoch}: loss {total / positions:.4f}  tag accuracy {evaluate(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
