# kind: in a second phase
# expect: frozen-parameter-moves
# why: the encoder is frozen with requires_grad_(False), but it stays in the optimizer and zero_grad(set_to_none=False)
#      leaves zero gradients, so momentum and weight decay go on moving (shrinking) the "frozen" weights.
"""Sensor forecasting pretraining, then a failure head on the frozen encoder."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def machines(count, generator, steps=30, sensors=6):
    mix = torch.randn(3, sensors, generator=torch.Generator().manual_seed(1234))
    health = torch.rand(count, generator=generator)
    speed = 0.2 + 0.5 * torch.rand(count, 1, generator=generator) + 0.3 * health[:, None]
    t = torch.arange(steps)
    latent = torch.stack([torch.sin(speed * t), torch.cos(speed * t), health[:, None] * torch.sin(2 * speed * t)], dim=-1)
    x = latent @ mix / 1.5 + 0.15 * torch.randn(count, steps, sensors, generator=generator)
    return TensorDataset(x, health)


class Encoder(nn.Module):
    def __init__(self, sensors=6, width=48):
        super().__init__()
        self.rnn = nn.GRU(sensors, width, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.forecast = nn.Linear(48, 6)
        self.health = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))

    def predict_next(self, x):
        return self.forecast(self.encoder(x[:, :-1]))

    def predict_health(self, x):
        return self.health(self.encoder(x).mean(1)).squeeze(1)


def train_epoch(model, optimizer, loader, loss_fn):
    model.train()
    total = 0.0
    for x, health in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = loss_fn(x, health)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(2)
    train, valid = machines(2048, generator), machines(512, generator)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    vx, vh = valid.tensors
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

    # phase one trains the encoder by forecasting; the health head learns beside it on detached features
    def both(x, health):
        h = model.encoder(x)
        forecast = F.mse_loss(model.forecast(h[:, :-1]), x[:, 1:])
        return forecast + F.mse_loss(model.health(h.mean(1).detach()).squeeze(1), health)

    for epoch in range(args.pretrain_epochs):
        loss = train_epoch(model, optimizer, loader, both)
        model.eval()
        with torch.no_grad():
            held_out = F.mse_loss(model.predict_next(vx), vx[:, 1:]).item()
        print(f"pretrain {epoch}: loss {loss:.4f}  valid forecast {held_out:.4f}")

    for part in (model.encoder, model.forecast):
        for p in part.parameters():
            p.requires_grad_(False)
    for group in optimizer.param_groups:
        group["lr"] = 0.05
    for epoch in range(args.epochs):
        loss = train_epoch(model, optimizer, loader, lambda x, health: F.mse_loss(model.predict_health(x), health))
        model.eval()
        with torch.no_grad():
            mae = (model.predict_health(vx) - vh).abs().mean().item()
        print(f"health {epoch}: loss {loss:.5f}  valid MAE {mae:.4f}")


if __name__ == "__main__":
    main()
