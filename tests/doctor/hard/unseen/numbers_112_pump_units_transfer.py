# kind: numbers
# expect: nothing
# why: might be accused of inputs-not-scaled, loss-summed, ragged-mean and loss-broadcast; the model's first layer standardises the raw units with buffers fitted on training data, the loss sums over two outputs with a weight each and is a mean over the batch, and errors are summed per sample before they are divided.
"""Pump surrogate in physical units: simulator data first, then a few plant measurements."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

IMPORTANCE = torch.tensor([1.0, 0.5])


class Standardise(nn.Module):
    """Units to standard scores and back; the statistics are buffers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))

    def fit(self, data: Tensor) -> "Standardise":
        self.mean.copy_(data.mean(0))
        self.std.copy_(data.std(0))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std

    def inverse(self, z: Tensor) -> Tensor:
        return z * self.std + self.mean


class Surrogate(nn.Module):
    def __init__(self, inputs: int, outputs: int, width: int = 96) -> None:
        super().__init__()
        self.scale = Standardise(inputs)
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.readout = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.trunk(self.scale(x)))


@dataclass
class Phase:
    name: str
    epochs: int
    batch: int
    trunk_lr: float
    readout_lr: float


def measure(n: int, gen: torch.Generator, plant: bool) -> tuple[Tensor, Tensor]:
    """Pressure in Pa, temperature in K, flow in m3/s, speed in 1/min to power in W and vibration in m/s."""
    unit = torch.rand(n, 4, generator=gen)
    pressure, kelvin = 8e4 + 8e4 * unit[:, 0], 280 + 40 * unit[:, 1]
    flow, speed = 1e-3 + 3e-3 * unit[:, 2], 1000 + 1500 * unit[:, 3]
    efficiency = 0.75 - 4e4 * (flow - 2.5e-3 * speed / 1750) ** 2 - 0.001 * (kelvin - 300)
    power = pressure * flow / efficiency.clamp_min(0.3)
    vibration = 1e-3 * (1 + torch.sin(speed / 400) ** 2 + 2e2 * flow)
    if plant:
        power, vibration = 1.12 * power + 15, 1.3 * vibration
    y = torch.stack([power, vibration], dim=1)
    return torch.stack([pressure, kelvin, flow, speed], dim=1), y * (1 + 0.02 * torch.randn(n, 2, generator=gen))


def train(model: Surrogate, target: Standardise, phase: Phase, data, valid) -> None:
    loader = DataLoader(TensorDataset(*data), batch_size=phase.batch, shuffle=True)
    optimizer = torch.optim.Adam([{"params": model.trunk.parameters(), "lr": phase.trunk_lr},
                                  {"params": model.readout.parameters(), "lr": phase.readout_lr}])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=phase.epochs * len(loader))
    for epoch in range(phase.epochs):
        model.train()
        for x, y in loader:
            error = model(x) - target(y)
            loss = (IMPORTANCE * error.square()).sum(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if (epoch + 1) % 5 == 0:
            power, vibration = mean_error(model, target, valid)
            print(f"{phase.name} epoch {epoch + 1}: power {power:.2f} W, vibration {1e3 * vibration:.4f} mm/s")


@torch.no_grad()
def mean_error(model: Surrogate, target: Standardise, data) -> list[float]:
    """Mean absolute error in units; the last batch is short and counts by its samples."""
    model.eval()
    total, count = torch.zeros(2, dtype=torch.float64), 0
    for x, y in DataLoader(TensorDataset(*data), batch_size=256):
        total += (target.inverse(model(x)) - y).abs().sum(0)
        count += len(x)
    return (total / count).tolist()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(101)
    gen = torch.Generator().manual_seed(101)
    simulated, sim_valid = measure(6000, gen, plant=False), measure(700, gen, plant=False)
    plant, plant_valid, plant_test = (measure(n, gen, plant=True) for n in (350, 300, 900))

    model = Surrogate(inputs=4, outputs=2)
    model.scale.fit(simulated[0])
    target = Standardise(2).fit(simulated[1])
    train(model, target, Phase("simulator", 15, 64, 2e-3, 2e-3), simulated, sim_valid)

    # The trunk keeps the input scale it was trained with; the readout and the target scale are new.
    model.readout = nn.Linear(96, 2)
    plant_target = Standardise(2).fit(plant[1])
    train(model, plant_target, Phase("plant", 40, 32, 2e-4, 3e-3), plant, plant_valid)
    power, vibration = mean_error(model, plant_target, plant_test)
    print(f"test: power {power:.2f} W, vibration {1e3 * vibration:.4f} mm/s")


if __name__ == "__main__":
    main()
