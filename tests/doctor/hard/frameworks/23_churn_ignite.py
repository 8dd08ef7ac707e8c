# kind: inside frameworks
# expect: metric-broadcast
# why: the evaluator compares logits of shape (N, 1) with labels of shape (N,): the comparison is broadcast to (N, N) and
#      the printed accuracy is the chance level of the marginals, whatever the model learns (the loss is right).
"""Churn prediction on customer tables with Ignite engines."""
import argparse

import torch
from ignite.engine import Engine, Events
from ignite.metrics import Average
from ignite.utils import manual_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_customers(count, generator):
    months = torch.randint(1, 72, (count,), generator=generator).float()
    calls = torch.poisson(torch.full((count,), 2.0), generator=generator)
    bill = 20 + 80 * torch.rand(count, generator=generator)
    usage = torch.randn(count, 6, generator=generator)
    risk = -0.05 * (months - 36) + 0.6 * (calls - 2) + 0.03 * (bill - 60) + usage[:, 0] * usage[:, 1]
    churn = (risk + 0.5 * torch.randn(count, generator=generator) > 0).float()
    return torch.cat([torch.stack([months, calls, bill], dim=1), usage], dim=1), churn


class ChurnNet(nn.Module):
    def __init__(self, features, width=48):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.layers(x)


def trainer_for(model, optimizer):
    def update(engine, batch):
        model.train()
        x, churn = batch
        loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), churn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Engine(update)


def evaluator_for(model):
    @torch.no_grad()
    def infer(engine, batch):
        model.eval()
        x, churn = batch
        logits = model(x)
        loss = F.binary_cross_entropy_with_logits(logits.squeeze(1), churn)
        accuracy = ((logits > 0).float() == churn).float().mean()
        return {"loss": loss.item(), "accuracy": accuracy.item()}

    engine = Engine(infer)
    for name in ("loss", "accuracy"):
        Average(output_transform=lambda out, name=name: out[name]).attach(engine, name)
    return engine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    manual_seed(61)
    generator = torch.Generator().manual_seed(61)
    x, churn = make_customers(4096 + 1024, generator)
    mean, std = x[:4096].mean(0), x[:4096].std(0)
    x = (x - mean) / std
    train_loader = DataLoader(TensorDataset(x[:4096], churn[:4096]), batch_size=64, shuffle=True)
    valid_loader = DataLoader(TensorDataset(x[4096:], churn[4096:]), batch_size=256)

    model = ChurnNet(x.size(1))
    trainer = trainer_for(model, torch.optim.Adam(model.parameters(), lr=args.lr))
    evaluator = evaluator_for(model)
    losses = []
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output))

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine):
        evaluator.run(valid_loader)
        m = evaluator.state.metrics
        print(f"epoch {engine.state.epoch}: train {sum(losses) / len(losses):.4f}  "
              f"valid {m['loss']:.4f}  accuracy {m['accuracy']:.3f}")
        losses.clear()

    trainer.run(train_loader, max_epochs=args.epochs)


if __name__ == "__main__":
    main()
