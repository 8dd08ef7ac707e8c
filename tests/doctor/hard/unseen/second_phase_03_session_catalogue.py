# kind: in a second phase
# expect: stale-optimizer
# also: parameter-not-optimized
# why: when the catalogue grows, the item table is replaced by a larger one, but the optimizer goes on holding the old
#      table; the new items (and the old ones) are never trained in the second phase.
"""Session-based recommender: next item with a GRU; the catalogue grows in the middle of training."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def sessions(count, items, generator, length=12):
    """People walk along a fixed ring of the catalogue with strides of 1 or 2."""
    ring = torch.randperm(items, generator=torch.Generator().manual_seed(items))
    start = torch.randint(0, items, (count, 1), generator=generator)
    stride = torch.randint(1, 3, (count, 1), generator=generator)
    walk = start + stride * torch.arange(length)
    noise = torch.rand(count, length, generator=generator) < 0.05
    walk = torch.where(noise, torch.randint(0, items, walk.shape, generator=generator), walk)
    return TensorDataset(ring[walk % items])


class SessionModel(nn.Module):
    def __init__(self, items, dim=48):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, dim)
        nn.init.normal_(self.items.weight, std=0.2)

    def grow(self, items):
        """Room for new articles; the rows of the known ones are kept."""
        old = self.items
        self.items = nn.Embedding(items, old.embedding_dim)
        nn.init.normal_(self.items.weight, std=0.2)
        with torch.no_grad():
            self.items.weight[: old.num_embeddings] = old.weight

    def forward(self, seq):
        h, _ = self.rnn(self.items(seq))
        return self.out(h) @ self.items.weight.t()


def loss_of(model, seq):
    return F.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())


def run_phase(name, model, optimizer, train, valid, epochs):
    loader = DataLoader(train, batch_size=64, shuffle=True)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for (seq,) in loader:
            loss = loss_of(model, seq)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(seq)
        model.eval()
        with torch.no_grad():
            held_out = loss_of(model, valid.tensors[0]).item()
        print(f"{name} epoch {epoch}: train {total / len(train):.3f}  valid {held_out:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--new-items", type=int, default=30)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()

    torch.manual_seed(13)
    generator = torch.Generator().manual_seed(13)
    model = SessionModel(args.items)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    run_phase("winter", model, optimizer, sessions(2048, args.items, generator), sessions(512, args.items, generator), 8)

    total = args.items + args.new_items
    model.grow(total)
    for group in optimizer.param_groups:
        group["lr"] = args.lr / 2
    run_phase("summer", model, optimizer, sessions(2048, total, generator), sessions(512, total, generator), 8)


if __name__ == "__main__":
    main()
