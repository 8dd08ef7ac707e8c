# kind: inside frameworks
# expect: nothing
# like: plateau-wrong-sign
# why: ReduceLROnPlateau is fed the validation accuracy, which grows, and is told so with mode="max"; it therefore lowers
#      the rate only when the accuracy stops growing.
"""Keyword spotting on synthetic spectrogram sequences; Ignite with plateau schedule and early stopping."""
import argparse

import torch
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping
from ignite.metrics import Accuracy, RunningAverage
from ignite.utils import manual_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
KEYWORDS, BANDS, FRAMES = 6, 16, 24


def make_words(count, templates, generator):
    label = torch.randint(0, KEYWORDS, (count,), generator=generator)
    x = templates[label] + 1.3 * torch.randn(count, FRAMES, BANDS, generator=generator)
    return TensorDataset(x, label)


class KeywordNet(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.rnn = nn.GRU(BANDS, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(hidden, KEYWORDS)

    def forward(self, frames):
        h, _ = self.rnn(frames)
        return self.head(self.drop(h.mean(1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    manual_seed(73)
    generator = torch.Generator().manual_seed(73)
    templates = F.avg_pool1d(torch.randn(KEYWORDS, BANDS, FRAMES + 4, generator=generator), 5, stride=1)
    templates = 0.9 * templates.transpose(1, 2)
    train_loader = DataLoader(make_words(2048, templates, generator), batch_size=32, shuffle=True)
    valid_loader = DataLoader(make_words(1024, templates, generator), batch_size=256)

    model = KeywordNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max", factor=0.3, patience=1, threshold=0.002, threshold_mode="abs"
    )

    def update(engine, batch):
        model.train()
        frames, label = batch
        loss = F.cross_entropy(model(frames), label)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        return loss.item()

    @torch.no_grad()
    def infer(engine, batch):
        model.eval()
        frames, label = batch
        return model(frames), label

    trainer, evaluator = Engine(update), Engine(infer)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    Accuracy().attach(evaluator, "accuracy")
    evaluator.add_event_handler(
        Events.COMPLETED,
        EarlyStopping(patience=5, score_function=lambda e: e.state.metrics["accuracy"], trainer=trainer),
    )

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(valid_loader)
        accuracy = evaluator.state.metrics["accuracy"]
        plateau.step(accuracy)
        print(f"epoch {engine.state.epoch}: loss {engine.state.metrics['loss']:.3f}  accuracy {accuracy:.3f}  "
              f"next lr {optimizer.param_groups[0]['lr']:.4f}")

    trainer.run(train_loader, max_epochs=args.epochs)
    print("best accuracy seen by the schedule:", round(float(plateau.best), 3))


if __name__ == "__main__":
    main()
