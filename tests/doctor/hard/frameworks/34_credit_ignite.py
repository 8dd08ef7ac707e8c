# kind: inside frameworks
# expect: trained-in-eval-mode
# why: The evaluator's process function calls model.eval(), the trainer's never calls model.train(); from the second
#      epoch on the network trains without dropout and with fixed BatchNorm statistics.
from dataclasses import dataclass

import torch
from ignite.engine import Engine, Events
from ignite.metrics import Accuracy, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


@dataclass
class Settings:
    rows: int = 4000
    numeric: int = 10
    cards: tuple = (7, 12, 4)
    batch: int = 64
    epochs: int = 7
    lr: float = 0.02
    seed: int = 23


class TabularNet(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, 4) for c in s.cards)
        width = s.numeric + 4 * len(s.cards)
        self.body = nn.Sequential(
            nn.Linear(width, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(32, 1))

    def forward(self, numeric, codes):
        parts = [table(codes[:, i]) for i, table in enumerate(self.tables)]
        return self.body(torch.cat([numeric, *parts], dim=1)).squeeze(1)


def make_table(s: Settings):
    g = torch.Generator().manual_seed(s.seed)
    numeric = torch.randn(s.rows, s.numeric, generator=g)
    codes = torch.stack([torch.randint(c, (s.rows,), generator=g) for c in s.cards], dim=1)
    effects = [torch.randn(c, generator=g) for c in s.cards]
    score = numeric @ torch.randn(s.numeric, generator=g) * 0.5 + numeric[:, 0] * numeric[:, 1]
    score = score + sum(e[codes[:, i]] for i, e in enumerate(effects))
    default = (torch.rand(s.rows, generator=g) < torch.sigmoid(score)).float()
    return TensorDataset(numeric, codes, default), g


def run(s: Settings):
    torch.manual_seed(s.seed)
    table, g = make_table(s)
    n_valid = s.rows // 5
    train_set, valid_set = random_split(table, [s.rows - n_valid, n_valid], generator=g)
    train_loader = DataLoader(train_set, s.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, 200)

    model = TabularNet(s)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=s.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    criterion = nn.BCEWithLogitsLoss()

    def train_step(engine, batch):
        numeric, codes, y = batch
        optimizer.zero_grad()
        loss = criterion(model(numeric, codes), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def score_step(engine, batch):
        model.eval()
        with torch.no_grad():
            numeric, codes, y = batch
            return model(numeric, codes), y

    trainer, scorer = Engine(train_step), Engine(score_step)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    Loss(criterion).attach(scorer, "bce")
    Accuracy(output_transform=lambda out: ((out[0] > 0).float(), out[1])).attach(scorer, "acc")

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        m = scorer.run(valid_loader).metrics
        print(f"[{engine.state.epoch}] train {engine.state.metrics['loss']:.4f} "
              f"valid bce {m['bce']:.4f} acc {m['acc']:.3f}")

    @trainer.on(Events.EPOCH_COMPLETED(every=3))
    def decay(engine):
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    trainer.run(train_loader, max_epochs=s.epochs)


if __name__ == "__main__":
    run(Settings())
