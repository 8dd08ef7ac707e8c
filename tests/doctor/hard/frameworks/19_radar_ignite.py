# kind: inside frameworks
# expect: evaluated-in-train-mode
# why: the evaluation step of the second Engine never calls model.eval(), so validation runs with dropout and with the
#      batch statistics of BatchNorm, and even moves its running statistics.
"""Radar echo classification with Ignite: hand-written trainer and evaluator engines."""
import argparse

import torch
from ignite.engine import Engine, Events
from ignite.metrics import Accuracy, Loss
from ignite.utils import manual_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_echoes(count, generator, size=20):
    """Range-Doppler maps: the class is the slope of the bright trace."""
    label = torch.randint(0, 4, (count,), generator=generator)
    slope = torch.tensor([-0.8, -0.25, 0.25, 0.8])[label] + 0.08 * torch.randn(count, generator=generator)
    offset = size / 2 + 3 * torch.randn(count, generator=generator)
    column = torch.arange(size, dtype=torch.float)
    centre = offset[:, None] + slope[:, None] * (column - size / 2)
    rows = column[None, :, None]
    trace = torch.exp(-((rows - centre[:, None, :]) ** 2) / 3.0)
    return TensorDataset((1.5 * trace + 0.7 * torch.randn(count, size, size, generator=generator)).unsqueeze(1), label)


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Dropout(0.4), nn.Linear(24 * 16, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 4),
    )


def create_trainer(model, optimizer, criterion):
    def update(engine, batch):
        model.train()
        x, y = batch
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Engine(update)


def create_evaluator(model, metrics):
    def inference(engine, batch):
        with torch.no_grad():
            x, y = batch
            return model(x), y

    engine = Engine(inference)
    for name, metric in metrics.items():
        metric.attach(engine, name)
    return engine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    manual_seed(9)
    generator = torch.Generator().manual_seed(9)
    train, valid = make_echoes(1920, generator), make_echoes(512, generator)
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=128)

    model, criterion = build_model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    trainer = create_trainer(model, optimizer, criterion)
    evaluator = create_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(criterion)})
    history = []

    @trainer.on(Events.ITERATION_COMPLETED)
    def remember(engine):
        history.append(engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(valid_loader)
        m = evaluator.state.metrics
        recent = history[-len(train_loader):]
        print(f"epoch {engine.state.epoch}: train {sum(recent) / len(recent):.3f}  "
              f"valid {m['loss']:.3f}  acc {m['accuracy']:.3f}")

    trainer.run(train_loader, max_epochs=args.epochs)


if __name__ == "__main__":
    main()
