# kind: inside frameworks
# expect: gradients-discarded
# also: zero-grad-before-step
# why: inside accumulate() the prepared zero_grad only acts on the micro-batch that syncs; called before backward it
#      throws away the sums of the other three micro-batches, and the step sees a quarter of one micro-batch.
"""Graph regression with a dense message-passing network, Accelerate accumulation."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_graphs(count, generator, nodes=10, kinds=5):
    kind = torch.randint(0, kinds, (count, nodes), generator=generator)
    upper = (torch.rand(count, nodes, nodes, generator=generator) < 0.25).float().triu(1)
    adjacency = upper + upper.transpose(1, 2)
    charge = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])[kind]
    energy = torch.einsum("bi,bij,bj->b", charge, adjacency, charge) / 2 + 0.3 * charge.sum(1)
    return kind, adjacency, energy


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, h, adjacency):
        m = adjacency @ self.message(h) / 3.0
        return self.norm(h + self.update(torch.cat([h, m], dim=-1)))


class GraphNet(nn.Module):
    def __init__(self, kinds=5, width=40, layers=3):
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.layers = nn.ModuleList([MessagePassing(width) for _ in range(layers)])
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, kind, adjacency):
        h = self.embed(kind)
        for layer in self.layers:
            h = layer(h, adjacency)
        return self.readout(h).mean(1).squeeze(-1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = count = 0
    for kind, adjacency, energy in loader:
        total += (model(kind, adjacency) - energy).abs().sum().item()
        count += len(energy)
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()

    set_seed(12)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    generator = torch.Generator().manual_seed(12)
    kind, adjacency, energy = make_graphs(2048 + 512, generator)
    energy = (energy - energy[:2048].mean()) / energy[:2048].std()
    train = TensorDataset(kind[:2048], adjacency[:2048], energy[:2048])
    valid = TensorDataset(kind[2048:], adjacency[2048:], energy[2048:])

    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(
        model, optimizer,
        DataLoader(train, batch_size=args.micro_batch, shuffle=True),
        DataLoader(valid, batch_size=128),
    )
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for k, a, target in train_loader:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                loss = F.mse_loss(model(k, a), target)
                accelerator.backward(loss)
                optimizer.step()
            running += loss.item()
        accelerator.print(f"epoch {epoch}: train mse {running / len(train_loader):.4f}  "
                          f"valid mae {evaluate(model, valid_loader):.4f}")


if __name__ == "__main__":
    main()
