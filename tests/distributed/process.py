"""One process of several: makes every run of the list, or those that are named, and leaves what came of it.

RANK=0 WORLD_SIZE=2 MASTER_ADDR=… MASTER_PORT=… python process.py FOLDER [RUN…]
"""

import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from distributed import sharding, slips
from distributed.recorded import recorded
from distributed.runs import BUCKETED, EXACT, IN_BUCKETS
from instep.distributed import chosen_turn


def main(arguments: list[str]) -> None:
    folder, names = Path(arguments[0]), arguments[1:]
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=UserWarning)  # notices, which rank 0 gives as one process does
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if size == 3:
        dist.init_process_group("gloo")  # one that the script opened is used, and left open
    found: dict[str, Any] = {}
    few = chosen_turn.FLAT_AT_MOST_BYTES
    exact = EXACT | BUCKETED | sharding.SHARDED
    cases = slips.LIST | slips.BUCKETED | sharding.CASES | {last.__name__: last for of, last in slips.LAST.items() if of == size}
    for name in [name for name in (*exact, *cases) if not names or name in names]:
        begun = time.perf_counter()
        chosen_turn.FLAT_AT_MOST_BYTES = 0 if name.endswith(IN_BUCKETS) else few
        try:
            found[name] = recorded(exact[name](2)) if name in exact else cases[name](rank, size, folder)
        except BaseException as error:
            traceback.print_exc()
            found[name] = error if type(error).__module__.startswith("instep") else repr(error)
        print(f"{rank} {name} {time.perf_counter() - begun:.2f} s", flush=True)
        torch.save(found, folder / f"rank-{rank}.part")
    (folder / f"rank-{rank}.part").rename(folder / f"rank-{rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1:])
