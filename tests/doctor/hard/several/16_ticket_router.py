# kind: several losses and optimizers
# expect: schedule-wrong-unit
# why: the dense part's cosine has T_max=epochs but is stepped in every batch, so the rate swings between its top and
#      zero every 24 batches instead of falling once; the sparse part's schedule is stepped per epoch, rightly.
"""Routes support tickets; sparse Adam for the word table, Adam for the dense part."""
import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR
from torch.utils.data import DataLoader

QUEUES, VOCAB = 6, 800


class Tickets(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.queue = torch.randint(0, QUEUES, (n,), generator=g)
        self.words = []
        for q in self.queue.tolist():
            topical = torch.randint(0, 80, (3,), generator=g) + 80 * q
            general = torch.randint(480, VOCAB, (int(torch.randint(5, 15, (1,), generator=g)),), generator=g)
            self.words.append(torch.cat([topical, general]))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return self.words[i], self.queue[i]


def collate(batch):
    words, queues = zip(*batch)
    lengths = torch.tensor([len(w) for w in words])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
    return torch.cat(words), offsets, torch.stack(queues)


class Router(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.table = nn.EmbeddingBag(VOCAB, dim, mode="mean", sparse=True)
        self.dense = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, QUEUES))

    def forward(self, words, offsets):
        return self.dense(self.table(words, offsets))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(90)
    train = DataLoader(Tickets(2560, 31), batch_size=args.batch, shuffle=True, collate_fn=collate)
    valid = DataLoader(Tickets(640, 32), batch_size=160, collate_fn=collate)
    model = Router()
    criterion = nn.CrossEntropyLoss()
    sparse = torch.optim.SparseAdam(list(model.table.parameters()), lr=3e-3)
    dense = torch.optim.Adam(model.dense.parameters(), lr=1e-3)
    sparse_schedule = StepLR(sparse, step_size=4, gamma=0.5)
    dense_schedule = CosineAnnealingLR(dense, T_max=args.epochs)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for words, offsets, queue in train:
            loss = criterion(model(words, offsets), queue)
            sparse.zero_grad()
            dense.zero_grad()
            loss.backward()
            sparse.step()
            dense.step()
            dense_schedule.step()
            total += loss.item()
        sparse_schedule.step()

        model.eval()
        hits = n = 0
        with torch.no_grad():
            for words, offsets, queue in valid:
                hits += (model(words, offsets).argmax(1) == queue).sum().item()
                n += len(queue)
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} accuracy {hits / n:.3f} "
              f"rates {sparse.param_groups[0]['lr']:.1e} {dense.param_groups[0]['lr']:.1e}")


if __name__ == "__main__":
    main()
