"""What many processes cost: two processes of the Trainer against two of plain DistributedDataParallel, written by hand.

An MLP 784-1024-1024-10, batches of 256 over both processes, one thread each. Both run in the same two processes and take turns,
an epoch each, so that a slow moment of the machine hits both; the table shows medians and ratios of one run. What a message of
nine numbers takes is measured by itself: the Trainer's counts travel with the gradients, and need none.

    torchrun --nproc-per-node 2 benchmarks/processes.py [--rounds 9]
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from instep import Trainer

SAMPLES, BATCH, WIDTH = 8_192, 256, 1024


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def by_hand(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Seconds of an epoch, by the clock and of the processor: each process takes its half of every batch, DDP does the rest."""
    model = DistributedDataParallel(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rank, size = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    for _ in range(2):  # the first epoch is not counted
        dist.barrier()
        begun = time.perf_counter(), time.process_time()
        for indices in order.split(BATCH):
            own = indices.tensor_split(size)[rank]
            optimizer.zero_grad()
            cross_entropy(model(x.index_select(0, own)), y.index_select(0, own)).backward()
            optimizer.step()
        dist.barrier()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def trained(x: Tensor, y: Tensor) -> tuple[float, float]:
    """The same of the Trainer."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    trainer = Trainer(model, loss=cross_entropy, optimizer=optimizer, train=(x, y), epochs=2, batch_size=BATCH, progress=False)
    updates = trainer.updates()
    for _ in range(trainer.steps_per_epoch):  # nor is it here
        next(updates)
    dist.barrier()
    begun = time.perf_counter(), time.process_time()
    for _ in updates:
        pass
    dist.barrier()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def counted(times: int = 300) -> float:
    """Seconds of a message of nine numbers."""
    numbers = torch.zeros(9, dtype=torch.float64)
    begun = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(numbers)
    return (time.perf_counter() - begun) / times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(SAMPLES, 784, generator=generator), torch.randint(10, (SAMPLES,), generator=generator)
    trained(x, y)  # opens the process group
    by_hand(x, y)
    pairs = [(by_hand(x, y), trained(x, y)) for _ in range(rounds)]
    message = counted()
    if dist.get_rank() == 0:
        updates = SAMPLES // BATCH
        print(f"{dist.get_world_size()} processes, {rounds} rounds        µs an update: by the clock, of rank 0's processor")
        for name, runs in (("a  plain DDP by hand", [a for a, _ in pairs]), ("b  Trainer", [b for _, b in pairs])):
            clock, processor = (statistics.median(column) / updates * 1e6 for column in zip(*runs, strict=True))
            print(f"  {name:<24}{clock:12,.0f} {processor:12,.0f}")
        ratios = [statistics.median(a[kind] / b[kind] for a, b in pairs) for kind in (0, 1)]
        print(f"  b is {ratios[0]:.3f} × as fast as a by the clock, {ratios[1]:.3f} × by processor time")
        print(f"  a message of nine numbers takes {message * 1e6:,.0f} µs")


if __name__ == "__main__":
    main()
