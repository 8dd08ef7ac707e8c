# kind: inside frameworks
# expect: graph-kept
# why: the update function returns the loss tensor itself and a handler appends engine.state.output to a list for the epoch
#      mean, so the graphs of all iterations stay alive.
"""Matrix factorisation with biases for explicit ratings, trained by an Ignite engine."""
import argparse

import torch
from ignite.engine import Engine, Events
from ignite.metrics import RootMeanSquaredError
from ignite.utils import manual_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def make_ratings(users, items, count, generator):
    taste = torch.randn(users, 4, generator=generator)
    trait = torch.randn(items, 4, generator=generator)
    lean = 0.4 * torch.randn(items, generator=generator)
    pair = torch.randperm(users * items, generator=generator)[:count]
    u, i = pair // items, pair % items
    score = 0.5 * (taste[u] * trait[i]).sum(1) + lean[i] + 0.2 * torch.randn(count, generator=generator)
    return TensorDataset(u, i, score.clamp(-2.5, 2.5))


class Factoriser(nn.Module):
    def __init__(self, users, items, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)
        for table, std in ((self.user, 0.3), (self.item, 0.3), (self.user_bias, 0.01), (self.item_bias, 0.01)):
            nn.init.normal_(table.weight, std=std)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(1)
        return dot + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)


class EpochMean:
    """Handler: keeps what the engine puts out and gives the mean of the epoch."""

    def __init__(self):
        self.values = []
        self.means = []

    def attach(self, engine):
        engine.add_event_handler(Events.ITERATION_COMPLETED, self.update)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self.finish)

    def update(self, engine):
        self.values.append(engine.state.output)

    def finish(self, engine):
        count = engine.state.epoch_length
        self.means.append(sum(v.item() for v in self.values[-count:]) / count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    manual_seed(44)
    generator = torch.Generator().manual_seed(44)
    ratings = make_ratings(300, 200, 16384 + 2048, generator)
    train, valid = random_split(ratings, [16384, 2048], generator=generator)
    train_loader = DataLoader(train, batch_size=256, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=512)
    model = Factoriser(300, 200)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)

    def update(engine, batch):
        model.train()
        u, i, r = batch
        loss = F.mse_loss(model(u, i), r)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    @torch.no_grad()
    def infer(engine, batch):
        model.eval()
        u, i, r = batch
        return model(u, i), r

    trainer, evaluator = Engine(update), Engine(infer)
    RootMeanSquaredError().attach(evaluator, "rmse")
    mean = EpochMean()
    mean.attach(trainer)

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine):
        evaluator.run(valid_loader)
        print(f"epoch {engine.state.epoch}: train mse {mean.means[-1]:.4f}  "
              f"valid rmse {evaluator.state.metrics['rmse']:.4f}")

    trainer.run(train_loader, max_epochs=args.epochs)


if __name__ == "__main__":
    main()
