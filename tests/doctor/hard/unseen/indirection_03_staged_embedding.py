# kind: behind indirection
# expect: frozen-parameter-moves
# why: the callback freezes the embedding with requires_grad_(False) after epoch 2, but the optimizer still holds it and
#      zero_grad(set_to_none=False) leaves a zero gradient there, so momentum and weight decay go on moving it.
"""Topic classification of short token bags, with a callback that freezes the embedding once it is good."""
import argparse
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def corpus(n, vocab=800, topics=8, length=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, topics, (n,), generator=g)
    common = torch.randint(0, vocab, (n, length), generator=g)
    topical = y[:, None] * (vocab // topics) + torch.randint(0, vocab // topics, (n, length), generator=g)
    use = torch.rand(n, length, generator=g) < 0.25
    return TensorDataset(torch.where(use, topical, common), y)


class BagOfWords(nn.Module):
    def __init__(self, vocab, dim, topics):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, topics))

    def forward(self, tokens):
        return self.body(self.embed(tokens).mean(1))


def freeze_at(epoch, when, module):
    if epoch == when:
        for p in module.parameters():
            p.requires_grad_(False)
        print(f"froze {module} at epoch {epoch}")


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--freeze-epoch", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train = DataLoader(corpus(6400, seed=1), batch_size=64, shuffle=True)
    valid = DataLoader(corpus(1024, seed=2), batch_size=128)
    model = BagOfWords(800, 48, 8)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=2e-4)
    clear = functools.partial(opt.zero_grad, set_to_none=False)
    callbacks = [functools.partial(freeze_at, when=args.freeze_epoch, module=model.embed)]
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        for cb in callbacks:
            cb(epoch)
        model.train()
        total, before = 0.0, model.embed.weight.detach().clone()
        for x, y in train:
            clear()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        moved = (model.embed.weight.detach() - before).norm() / before.norm()
        print(f"epoch {epoch} loss {total / len(train.dataset):.4f} valid acc {accuracy(model, valid):.3f} embedding change {moved:.4f}")


if __name__ == "__main__":
    main()
