"""What the doctor remembers of a run does not grow with it."""

import gc
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import instep

EPOCH = 50  # steps


def megabytes() -> float:
    """What this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def train(epochs: int, marks: dict[int, tuple[float, int]]) -> None:
    """Epochs with evaluation, clipping, a schedule and checkpoints; at `marks`, notes memory and objects."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    rows = TensorDataset(torch.randn(4 * EPOCH, 4), torch.randint(2, (4 * EPOCH,)))
    loader, valid = DataLoader(rows, batch_size=4, shuffle=True), DataLoader(TensorDataset(*rows[:8]), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * EPOCH)
    for epoch in range(1, epochs + 1):
        model.train()
        for x, y in loader:
            optimizer.zero_grad(set_to_none=epoch % 2 == 0)
            nn.functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            sum(float(nn.functional.cross_entropy(model(x), y)) for x, y in valid)
        if epoch in marks:
            gc.collect()
            marks[epoch] = (megabytes(), len(gc.get_objects()))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_is_flat_over_100_000_steps() -> None:
    early, middle, late = 20_000 // EPOCH, 60_000 // EPOCH, 100_000 // EPOCH
    marks = dict.fromkeys((early, middle, late), (0.0, 0))
    with instep.watch(aloud=False) as visit:
        train(late, marks)
    assert visit.trace.steps == 100_000
    assert visit.hub.failures == []
    (first, objects), (_, _), (last, more) = marks[early], marks[middle], marks[late]
    assert last - first < 4, marks
    assert more - objects < 2_000, marks
