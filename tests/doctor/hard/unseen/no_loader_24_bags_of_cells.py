# kind: without a DataLoader
# expect: nothing
# like: softmax-wrong-dim
# why: softmax runs over axis 0, but axis 0 are the cells of one bag: attention pooling weighs the instances of a bag against
#      each other; different bags come one after the other and are averaged by (divided) accumulation.
"""Multiple-instance learning: a slide is a bag of cells and is positive if some of its cells are."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

DIM = 16


def bags(n, g):
    direction = F.normalize(torch.randn(DIM, generator=torch.Generator().manual_seed(5)), dim=0)
    out = []
    for _ in range(n):
        size = int(torch.randint(12, 40, (1,), generator=g))
        label = int(torch.randint(0, 2, (1,), generator=g))
        cells = torch.randn(size, DIM, generator=g)
        if label:
            k = int(torch.randint(2, 6, (1,), generator=g))
            cells[torch.randperm(size, generator=g)[:k]] += 3.5 * direction
        out.append((cells, torch.tensor(float(label))))
    return out


class AttentionPool(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(DIM, h), nn.ReLU())
        self.value, self.gate = nn.Linear(h, 24), nn.Linear(h, 24)
        self.score = nn.Linear(24, 1)
        self.out = nn.Linear(h, 1)

    def forward(self, cells):
        z = self.embed(cells)
        weight = torch.softmax(self.score(torch.tanh(self.value(z)) * torch.sigmoid(self.gate(z))), dim=0)
        return self.out((weight * z).sum(0)).squeeze(0)


def groups(data, size):
    order = torch.randperm(len(data)).tolist()
    for at in range(0, len(order), size):
        yield [data[i] for i in order[at:at + size]]


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    out = torch.stack([model(cells) for cells, _ in data])
    y = torch.stack([label for _, label in data])
    return F.binary_cross_entropy_with_logits(out, y).item(), ((out > 0) == (y > 0.5)).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--group", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(124)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1240)
    train, valid = bags(480, g), bags(200, g)
    model = AttentionPool(32)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for group in groups(train, args.group):
            opt.zero_grad()
            for cells, label in group:
                loss = F.binary_cross_entropy_with_logits(model(cells), label) / len(group)
                loss.backward()
                total += loss.item() * len(group)
            opt.step()
        vl, va = evaluate(model, valid)
        print(f"epoch {epoch} loss {total / len(train):.4f} valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
