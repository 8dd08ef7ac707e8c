# kind: indirection
# expect: nothing
# why: Cross-validation by hand with a new model and a new optimizer per fold, so samples change sides only between models. The averaged weights get their batch norm statistics by a hand-written pass over the training fold in train mode under no_grad before they are evaluated.
"""Five-fold cross-validation of a tile classifier with averaged weights."""
import copy
import logging
from collections.abc import Iterator
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("folds")


def tiles(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Small weave textures of three kinds with noise and uneven light."""
    label = torch.arange(n) % 3
    row = torch.arange(14.0).view(1, 14, 1)
    col = torch.arange(14.0).view(1, 1, 14)
    phase = 6.3 * torch.rand(n, 2, 1, 1, generator=gen)
    speed = torch.tensor([0.9, 1.3, 1.7])[label].view(n, 1, 1)
    weave = torch.sin(speed * row + phase[:, 0]) * torch.sin(speed * col + phase[:, 1])
    light = torch.randn(n, 1, 1, generator=gen) * (row - 6.5) / 14
    image = weave + light + 1.3 * torch.randn(n, 14, 14, generator=gen)
    return 90 + 25 * image.unsqueeze(1), label


def tile_net() -> nn.Sequential:
    def block(a: int, b: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]

    return nn.Sequential(*block(1, 8, 1), *block(8, 16, 2), *block(16, 24, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3))


def fold_indices(n: int, folds: int, gen: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    parts = torch.randperm(n, generator=gen).chunk(folds)
    for k in range(folds):
        yield torch.cat([part for j, part in enumerate(parts) if j != k]), parts[k]


class RunningAverage:
    """Mean of the parameters over all calls of update."""

    def __init__(self) -> None:
        self.count = 0
        self.values: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.count += 1
        for name, p in model.named_parameters():
            if name not in self.values:
                self.values[name] = p.detach().clone()
            else:
                self.values[name] += (p - self.values[name]) / self.count

    @torch.no_grad()
    def applied_to(self, model: nn.Module) -> nn.Module:
        averaged = copy.deepcopy(model)
        for name, p in averaged.named_parameters():
            p.copy_(self.values[name])
        return averaged


@torch.no_grad()
def refresh_statistics(model: nn.Module, batches: DataLoader) -> None:
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    kept = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    for x, _ in batches:
        model(x)
    for m, momentum in zip(norms, kept, strict=True):
        m.momentum = momentum
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    hits = count = 0
    for x, y in loader:
        hits += int((model(x).argmax(1) == y).sum())
        count += len(y)
    return hits / count


def run_fold(train: tuple[Tensor, Tensor], valid: tuple[Tensor, Tensor], epochs: int, average_from: int) -> tuple[float, float]:
    centre, spread = train[0].mean(), train[0].std()
    train_loader = DataLoader(TensorDataset((train[0] - centre) / spread, train[1]), batch_size=48, shuffle=True, drop_last=True)
    valid_loader = DataLoader(TensorDataset((valid[0] - centre) / spread, valid[1]), batch_size=120)
    model, average = tile_net(), RunningAverage()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            opt.zero_grad()
            F.cross_entropy(model(x), y, label_smoothing=0.05).backward()
            opt.step()
        if epoch >= average_from:
            average.update(model)
    averaged = average.applied_to(model)
    refresh_statistics(averaged, train_loader)
    return accuracy(model, valid_loader), accuracy(averaged, valid_loader)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(37)
    gen = torch.Generator().manual_seed(37)
    images, labels = tiles(900, gen)
    last, averaged = [], []
    for k, (inside, outside) in enumerate(fold_indices(len(images), 5, gen)):
        a, b = run_fold((images[inside], labels[inside]), (images[outside], labels[outside]), epochs=8, average_from=5)
        log.info("fold %d last %.3f averaged %.3f", k, a, b)
        last.append(a)
        averaged.append(b)
    log.info("last %.3f +- %.3f, averaged %.3f +- %.3f", mean(last), stdev(last), mean(averaged), stdev(averaged))


if __name__ == "__main__":
    main()
