"""Runs of several processes, replayed in one: the same micro-batches under the same keys, so the same result."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import instep
from distributed.runs import trainer, with_dropout
from distributed.sharding import penalties
from distributed.sizes import sizes
from distributed.test_worlds import Alone, Worlds, close

pytestmark = pytest.mark.filterwarnings("ignore::instep.errors.Notice")


@sizes("replayable")
def test_a_run_of_several_processes_is_replayed_in_one(size: int, world: Worlds) -> None:
    """Dropout included: it is keyed by the place of the micro-batch."""
    seen = world(size)["replayable"][0]
    options: dict[str, Any] = {"update_cycle": 2, "checkpoint_every": 3, "keep": None, "log_every": 1}
    last = seen["step"] - 1
    for step in (1, 4, last):
        found = instep.replay(world(size).folder / "replayable", lambda: trainer(model=with_dropout(), **options), step=step)
        assert found.start.checkpoint == (step // 3 * 3 or None)
        assert f"processes was {size} before, is 1 now" in found.start.notices
        assert found.checked.verdict in ("bitwise", "rounding"), found.checked
        assert all(one.relative < 1e-11 for one in found.checked.differences)
        close(found.loss, seen["updates"][step][1])
    close(found.model.state_dict(), seen["weights"])


@sizes("shards_saved")
def test_a_sharded_run_is_replayed_in_one_process_that_holds_the_whole_model(
    size: int, world: Worlds, alone: Alone, tmp_path: Path
) -> None:
    shutil.copytree(world(size).folder / "shards", tmp_path / "shards")
    expected = alone(penalties, 2 * size)
    for shard in (False, "blocks.*"):
        found = instep.replay(tmp_path / "shards", lambda shard=shard: penalties(2, shard=shard), step=5)
        assert found.start.checkpoint == 4
        close(found.loss, expected["updates"][5][1])
        assert found.update is not None
        close(float(found.update.grad_norm or 0), expected["updates"][5][5])
