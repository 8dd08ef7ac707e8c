# kind: inside frameworks
# expect: gradients-discarded
# why: Inside accelerator.accumulate the prepared optimizer's zero_grad only acts on the pass that steps; called before
#      backward it throws away the gradients of the other micro-batches, so each step uses the last one alone.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def parse():
    p = argparse.ArgumentParser("neural collaborative filtering")
    p.add_argument("--users", type=int, default=200)
    p.add_argument("--items", type=int, default=120)
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--micro", type=int, default=64)
    p.add_argument("--grad-accum", type=int, default=4)
    p.add_argument("--lr", type=float, default=5e-3)
    return p.parse_args()


class NCF(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 32), nn.SiLU(), nn.Linear(32, 1))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, u, i):
        pu, qi = self.user(u), self.item(i)
        dot = (pu * qi).sum(-1)
        deep = self.mlp(torch.cat([pu, qi], -1)).squeeze(-1)
        return dot + deep + self.user_bias(u).squeeze(-1) + self.item_bias(i).squeeze(-1)


def interactions(users, items, seed):
    g = torch.Generator().manual_seed(seed)
    taste, trait = torch.randn(users, 4, generator=g), torch.randn(items, 4, generator=g)
    popularity = 0.7 * torch.randn(items, generator=g)
    clicked = (torch.rand(users, items, generator=g) < torch.sigmoid(1.3 * taste @ trait.T + popularity)).float()
    u, i = torch.meshgrid(torch.arange(users), torch.arange(items), indexing="ij")
    order = torch.randperm(users * items, generator=g)
    u, i, c = u.flatten()[order], i.flatten()[order], clicked.flatten()[order]
    n_train, n_valid = 16384, 4096
    train = TensorDataset(u[:n_train], i[:n_train], c[:n_train])
    stop = n_train + n_valid
    return train, TensorDataset(u[n_train:stop], i[n_train:stop], c[n_train:stop])


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, hits, n = 0.0, 0, 0
    for u, i, c in loader:
        logit = model(u, i)
        loss += F.binary_cross_entropy_with_logits(logit, c, reduction="sum").item()
        hits += ((logit > 0) == (c > 0.5)).sum().item()
        n += len(c)
    return loss / n, hits / n


def main():
    args = parse()
    set_seed(2)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.grad_accum)
    train_set, valid_set = interactions(args.users, args.items, seed=31)
    train_dl = DataLoader(train_set, batch_size=args.micro, shuffle=True)
    valid_dl = DataLoader(valid_set, batch_size=512)
    model = NCF(args.users, args.items, args.dim)
    decay = [p for n, p in model.named_parameters() if "bias" not in n]
    rest = [p for n, p in model.named_parameters() if "bias" in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 1e-2}, {"params": rest, "weight_decay": 0.0}],
                                  lr=args.lr)
    model, optimizer, train_dl, valid_dl = accelerator.prepare(model, optimizer, train_dl, valid_dl)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for u, i, c in train_dl:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                loss = F.binary_cross_entropy_with_logits(model(u, i), c)
                accelerator.backward(loss)
                optimizer.step()
            total += loss.detach().item()
        val_loss, val_acc = validate(model, valid_dl)
        accelerator.print(f"epoch {epoch} train {total / len(train_dl):.4f} valid {val_loss:.4f} acc {val_acc:.3f}")


if __name__ == "__main__":
    main()
