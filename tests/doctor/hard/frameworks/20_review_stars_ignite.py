# kind: inside frameworks
# expect: nothing
# like: scheduler-before-optimizer
# why: Ignite's LRScheduler handler belongs at ITERATION_STARTED: it writes the rate of the coming iteration (the first one
#      gets the first value of the schedule), so nothing is skipped although it runs before optimizer.step.
"""Star rating of reviews (ordinal levels) with Ignite and a warm-up/decay schedule per iteration."""
import argparse

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator
from ignite.handlers import LRScheduler
from ignite.metrics import MeanAbsoluteError
from ignite.utils import manual_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VOCAB, WORDS, LEVELS = 250, 20, 5


def make_reviews(count, mood, generator):
    shift = torch.randn(count, 1, generator=generator)
    weights = torch.softmax(1.2 * shift * mood[None, :], dim=1)
    words = torch.multinomial(weights, WORDS, replacement=True, generator=generator)
    stars = torch.bucketize(shift.squeeze(1), torch.tensor([-1.0, -0.35, 0.35, 1.0]))
    return TensorDataset(words, stars)


class OrdinalNet(nn.Module):
    """Predicts for each threshold k whether the rating exceeds k."""

    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.hidden = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.1))
        self.out = nn.Linear(dim, LEVELS - 1)

    def forward(self, words):
        return self.out(self.hidden(self.embed(words).mean(1)))


def levels(stars):
    return (stars.unsqueeze(1) > torch.arange(LEVELS - 1)).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--warmup", type=int, default=40)
    args = parser.parse_args()

    manual_seed(28)
    generator = torch.Generator().manual_seed(28)
    mood = torch.randn(VOCAB, generator=generator)
    train, valid = make_reviews(3840, mood, generator), make_reviews(1024, mood, generator)
    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=256)

    model = OrdinalNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    total = args.epochs * len(train_loader)

    def factor(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return max(0.02, (total - step) / (total - args.warmup))

    def update(engine, batch):
        model.train()
        words, stars = batch
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(words), levels(stars))
        loss.backward()
        optimizer.step()
        return {"loss": loss.item(), "lr": optimizer.param_groups[0]["lr"]}

    trainer = Engine(update)
    schedule = LRScheduler(torch.optim.lr_scheduler.LambdaLR(optimizer, factor))
    trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
    evaluator = create_supervised_evaluator(
        model,
        metrics={"mae": MeanAbsoluteError()},
        output_transform=lambda x, y, logits: ((logits > 0).sum(1).float(), y.float()),
    )
    losses = []

    @trainer.on(Events.ITERATION_COMPLETED)
    def collect(engine):
        losses.append(engine.state.output["loss"])

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine):
        evaluator.run(valid_loader)
        recent = losses[-len(train_loader):]
        print(f"epoch {engine.state.epoch}: loss {sum(recent) / len(recent):.4f}  "
              f"valid MAE {evaluator.state.metrics['mae']:.3f} stars  lr {engine.state.output['lr']:.2e}")

    trainer.run(train_loader, max_epochs=args.epochs)


if __name__ == "__main__":
    main()
