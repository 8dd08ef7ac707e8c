"""What the order of an epoch costs: python benchmarks/order.py (about 3 s).

The aims: any batch of any epoch of 10^9 samples in under a millisecond, and about 0.1 µs a sample when reading through.
"""

import time
from collections.abc import Callable
from statistics import median

import torch

from instep.data.order import BLOCK, Order

BILLION = 10**9


def time_calls(call: Callable[[int], object], *, times: int) -> list[float]:
    """Seconds of call(0), call(1), …"""
    seconds = []
    for index in range(times):
        start = time.perf_counter()
        call(index)
        seconds.append(time.perf_counter() - start)
    return seconds


def time_fresh_batch(size: int) -> str:
    """A batch from the middle of epoch 7, with a new Order each time."""
    middle = BILLION // 2
    seconds = time_calls(lambda _: Order(BILLION, seed=0, epoch=7).slice(middle, middle + size), times=500)
    return f"{median(seconds) * 1e6:9.1f} µs (median)"


def time_batches_in_sequence(size: int) -> str:
    """The mean carries the blocks that are computed on the way; half of all batches cost at most the median."""
    order = Order(BILLION, seed=0, epoch=7)
    batches = 20 * BLOCK // size
    seconds = time_calls(lambda index: order.slice(index * size, (index + 1) * size), times=batches)
    return (
        f"{sum(seconds) / batches * 1e6:9.1f} µs (mean)   {median(seconds) * 1e6:.1f} µs (median)   "
        f"{max(seconds) * 1e3:.1f} ms (longest)"
    )


def time_reading_through(n: int) -> str:
    """Up to four blocks in batches of 1,024, a new Order each time."""
    places = min(n, 4 * BLOCK)

    def read(epoch: int) -> None:
        order = Order(n, seed=0, epoch=epoch)
        for start in range(0, places, 1024):
            order[start : min(start + 1024, places)]

    return f"{median(time_calls(read, times=30)) / places * 1e9:9.1f} ns a sample"


def time_randperm(n: int) -> str:
    seconds = median(time_calls(lambda _: torch.randperm(n), times=20))
    return f"{seconds / n * 1e9:9.1f} ns a sample   {seconds * 1e3:.1f} ms before the first batch"


def main() -> None:
    rows = {
        "10^9 samples, batch of 1,024, fresh": time_fresh_batch(1024),
        "10^9 samples, batch of 64, fresh": time_fresh_batch(64),
        "10^9 samples, batches of 64 in sequence": time_batches_in_sequence(64),
        "read through, n = 10^4": time_reading_through(10**4),
        "read through, n = 10^6": time_reading_through(10**6),
        "read through, n = 10^9": time_reading_through(BILLION),
        "read through, n = 2^40": time_reading_through(2**40),
        "for comparison: torch.randperm(10^6)": time_randperm(10**6),
    }
    for name, cost in rows.items():
        print(f"{name:<42}{cost}")


if __name__ == "__main__":
    main()
