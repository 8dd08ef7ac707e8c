# kind: in a second phase
# expect: nothing
# like: frozen-parameter-moves
# why: the word table is frozen after the first phase and stays in the optimizer, but its grad is None from then on, and
#      AdamW skips parameters without a gradient (no decay, no momentum); the script checks that it does not move.
"""Sentiment with attention pooling: train all, then lock the word table and train the rest at a lower rate."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VOCAB, LENGTH = 200, 16


def reviews(count, tone, generator):
    words = torch.randint(0, VOCAB, (count, LENGTH), generator=generator)
    flips = (words < 10).float()  # ten negations turn the following word round
    sign = 1 - 2 * torch.cat([torch.zeros(count, 1), flips[:, :-1]], dim=1)
    score = (sign * tone[words]).sum(1)
    return TensorDataset(words, (score > 0).float())


class Sentiment(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        self.local = nn.Conv1d(dim, dim, 2, padding=1)
        self.query = nn.Linear(dim, 1)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(dim, 1))

    def forward(self, words):
        h = self.local(self.words(words).transpose(1, 2))[:, :, :-1].transpose(1, 2)
        h = torch.tanh(h)
        attention = torch.softmax(self.query(h), dim=1)
        return self.head((attention * h).sum(1)).squeeze(-1)


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    words, label = data.tensors
    logit = model(words)
    loss = F.binary_cross_entropy_with_logits(logit, label).item()
    return loss, ((logit > 0) == label.bool()).float().mean().item()


def train_epoch(model, optimizer, loader):
    model.train()
    total = count = 0
    for words, label in loader:
        loss = F.binary_cross_entropy_with_logits(model(words), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(label)
        count += len(label)
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, nargs=2, default=[7, 6])
    parser.add_argument("--lr", type=float, nargs=2, default=[4e-3, 1e-3])
    args = parser.parse_args()
    torch.manual_seed(20)
    generator = torch.Generator().manual_seed(20)
    tone = torch.randn(VOCAB, generator=generator)
    tone[:10] = 0
    train, valid = reviews(4096, tone, generator), reviews(1024, tone, generator)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = Sentiment()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr[0], weight_decay=0.02)

    for phase in (0, 1):
        for group in optimizer.param_groups:
            group["lr"] = args.lr[phase]
        if phase == 1:
            model.words.weight.requires_grad_(False)
            model.words.weight.grad = None
            locked = model.words.weight.detach().clone()
        for epoch in range(args.epochs[phase]):
            loss = train_epoch(model, optimizer, loader)
            held_out, acc = evaluate(model, valid)
            print(f"phase {phase} epoch {epoch}: train {loss:.4f}  valid {held_out:.4f}  accuracy {acc:.3f}")
    assert torch.equal(locked, model.words.weight)


if __name__ == "__main__":
    main()
