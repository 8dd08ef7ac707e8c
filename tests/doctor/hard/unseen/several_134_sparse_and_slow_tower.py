# kind: several
# expect: nothing
# why: SparseAdam steps the embeddings on every batch, while the dense tower keeps its gradients over four batches on purpose, is averaged over the batches really summed, stepped and then cleared; the rest of an epoch is flushed.
"""Click model: sparse embeddings move every batch, the dense tower every few batches."""
import argparse
import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("clicks")


class ClickModel(nn.Module):
    def __init__(self, users: int, items: int, dim: int) -> None:
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.item_bias = nn.Embedding(items, 1, sparse=True)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)
        self.tower = nn.Sequential(
            nn.Linear(3 * dim + 4, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1),
        )

    def tables(self) -> list[nn.Parameter]:
        return [self.user.weight, self.item.weight, self.item_bias.weight]

    def forward(self, user: Tensor, item: Tensor, context: Tensor) -> Tensor:
        u, i = self.user(user), self.item(item)
        joined = torch.cat([u, i, u * i, context], dim=1)
        return (self.tower(joined) + self.item_bias(item)).squeeze(1)


class SlowOptimizer:
    """Sums gradients over several batches and steps on their mean."""

    def __init__(self, inner: torch.optim.Optimizer, every: int) -> None:
        self.inner, self.every, self.held = inner, every, 0

    def tick(self) -> None:
        self.held += 1
        if self.held == self.every:
            self.flush()

    def flush(self) -> None:
        if self.held == 0:
            return
        for group in self.inner.param_groups:
            for p in group["params"]:
                p.grad.div_(self.held)
        self.inner.step()
        self.inner.zero_grad()
        self.held = 0


def simulate(users: int, items: int, n: int, seed: int) -> TensorDataset:
    gen = torch.Generator().manual_seed(seed)
    pairs = torch.randperm(users * items, generator=gen)[:n]
    user, item = pairs // items, pairs % items
    taste = torch.randn(users, 4, generator=gen)
    kind = torch.randn(items, 4, generator=gen)
    popular = torch.randn(items, generator=gen)
    context = torch.randn(n, 4, generator=gen)
    score = (taste[user] * kind[item]).sum(1) + popular[item] + context[:, 0] * context[:, 1]
    click = (torch.rand(n, generator=gen) < torch.sigmoid(score - 0.5)).float()
    return TensorDataset(user, item, context, click)


@torch.no_grad()
def evaluate(model: ClickModel, loader: DataLoader) -> tuple[float, float]:
    was_training = model.training
    model.eval()
    loss = hits = count = 0.0
    for user, item, context, click in loader:
        logit = model(user, item, context)
        loss += F.binary_cross_entropy_with_logits(logit, click, reduction="sum").item()
        hits += ((logit > 0) == (click > 0.5)).sum().item()
        count += click.numel()
    model.train(was_training)
    return loss / count, hits / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(23)

    data = simulate(400, 300, 18_000, seed=8)
    train, valid = torch.utils.data.random_split(data, [15_000, 3_000])
    train_loader = DataLoader(train, batch_size=args.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid, batch_size=512)

    model = ClickModel(400, 300, 12)
    fast = torch.optim.SparseAdam(model.tables(), lr=1.5e-3)
    slow = SlowOptimizer(torch.optim.Adam(model.tower.parameters(), lr=3e-3), args.every)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for user, item, context, click in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(user, item, context), click)
            fast.zero_grad()
            loss.backward()
            fast.step()
            slow.tick()
            running += loss.item()
        slow.flush()
        valid_loss, accuracy = evaluate(model, valid_loader)
        log.info("epoch %d train %.4f valid %.4f accuracy %.3f", epoch, running / len(train_loader), valid_loss, accuracy)


if __name__ == "__main__":
    main()
