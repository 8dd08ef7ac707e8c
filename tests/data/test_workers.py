"""Worker processes: that they end, what is said when they fail, and that nothing hangs. With real processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import get_worker_info

from feeds import CPU, Noisy, Squares, assert_same, loader, read
from instep.data.loading import pool
from instep.data.loading.failure import InWorker
from instep.data.loading.loader import Loader
from instep.data.sources.dataloader import WorkerSettings
from instep.data.sources.recognize import as_data, as_source
from instep.errors import DataError, DescriptionError, Notice
from programs import PIPE, Programs


def made(data: Any, **options: Any) -> Loader:
    return loader(as_source(data, "train"), **({"workers": 2, "shuffle": False, "epochs": 2} | options))


def children() -> list[int]:
    """The processes begun by this one that still live."""
    return [process.pid or 0 for process in multiprocessing.active_children()]


class Doing(Squares):
    """Does something at sample 9."""

    def __init__(self, what: Any, samples: int = 24) -> None:
        super().__init__(samples)
        self.what = what

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            self.what()
        return super().__getitem__(index)


def fail() -> None:
    raise KeyError("label")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- One that raises


def test_an_error_names_the_sample_and_the_users_line() -> None:
    line = Path(__file__).read_text().splitlines().index('    raise KeyError("label")') + 1
    loading = made(Doing(fail))
    words = rf"sample 9 of train cannot be loaded: KeyError: 'label' \({__file__}:{line}, in fail: raise KeyError\(\"label\"\)\)"
    for _ in range(2):  # and again: the workers live on
        batches = loading.batches(0)
        assert next(batches).index == 0
        with pytest.raises(DataError, match=words) as caught:
            list(batches)
        assert isinstance(caught.value.__cause__, InWorker)
        assert "in __getitem__" in str(caught.value.__cause__)
    assert [batch.index for batch in loading.batches(0, 3)] == [3, 4, 5]
    loading.close()


def test_the_words_are_those_of_loading_here() -> None:
    said = []
    for workers in (0, 2):
        with pytest.raises(DataError) as caught:
            read(made(Doing(fail), workers=workers))
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_what_cannot_be_sent_is_said() -> None:
    """Torch's queue would drop it, and the loader wait for ever."""

    class Strange(Squares):
        def __getitem__(self, index: int) -> Any:
            return {"x": index, "f": lambda: index}

    source: Any = loader(as_source(Strange(), "train"), workers=1)
    source._source.collate = lambda samples: samples[0]
    with pytest.raises(
        DataError, match=r"a batch of train holds a function, which cannot be sent from a worker \(.*use num_workers=0"
    ):
        read(source)


# --- One that dies


def test_a_worker_that_is_killed_while_it_is_waited_for() -> None:
    loading = made(Doing(die))
    begun = time.monotonic()
    with pytest.raises(DataError, match=r"worker \d of train \(process \d+\) was killed \(Killed\) while it loaded sample 9\."):
        list(loading.batches(0))
    assert time.monotonic() - begun < 60
    assert children() == []
    assert [batch.index for batch in loading.batches(0, 3)] == [3, 4, 5]  # new ones are begun
    loading.close()


def test_a_worker_that_is_killed_in_the_meantime() -> None:
    """Its death is not raised in the middle of what else is done, but when its batch is asked for."""
    loading = made(Squares(64))
    batches = loading.batches(0)
    next(batches)
    for process in children():
        os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while children() and time.monotonic() < deadline:
        time.sleep(0.01)  # an update, a checkpoint: nothing is raised here
    with pytest.raises(
        DataError, match=r"worker \d of train \(process \d+\) was killed \(Killed\) while it loaded sample \d+|before its"
    ):
        list(batches)
    loading.close()


def test_a_worker_that_is_killed_when_nobody_needs_it_any_more() -> None:
    loading = made(Squares(8))
    assert len(list(loading.batches(0))) == 2
    for process in children():
        os.kill(process, signal.SIGKILL)
    time.sleep(0.1)
    loading.close()
    assert len(list(loading.batches(1))) == 2
    loading.close()


def test_a_worker_that_leaves() -> None:
    with pytest.raises(DataError, match=r"worker \d of train \(process \d+\) ended with exit code 3 while it loaded sample 9"):
        read(made(Doing(lambda: os._exit(3))))


def test_the_death_of_a_process_that_is_none_of_ours_is_not_ours_to_tell() -> None:
    loading = made(Squares(64))
    batches = loading.batches(0)
    next(batches)
    subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=False)
    assert len(list(batches)) == 15
    loading.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_that_does_not_come_in_time(workers: int) -> None:
    settings = WorkerSettings(timeout_s=0.3)
    words = r"no batch of train came within the timeout of its DataLoader, 0\.3 s: worker 0 \(process \d+\) is at sample 9\.$"
    with pytest.raises(DataError, match=words):
        read(made(Doing(lambda: time.sleep(1.2)), settings=settings, workers=workers))
    assert children() == []


def test_a_batch_that_does_not_come_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a timeout it is waited for; what it waits for is said once."""
    monkeypatch.setattr(pool, "PATIENCE_S", 0.3)
    with pytest.warns(Notice, match=r"no batch of train came for 0\.3 s: worker 0 \(process \d+\) is at sample 9\.$") as told:
        assert len(read(made(Doing(lambda: time.sleep(1.0)), workers=2), range(1))) == 6
    assert len(told) == 1


def test_a_batch_that_nobody_has_begun_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PATIENCE_S", 0.3)
    settings = WorkerSettings(init=lambda number: time.sleep(0.8))
    with pytest.warns(Notice, match=r"no batch of train came for 0\.3 s: no worker has begun with 0, 1, 2, 3\.$"):
        read(made(Squares(8), workers=1, settings=settings), range(1))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit()], ids=["exit", "generator"])
def test_what_would_end_a_program_or_a_loop_names_the_sample(raised: BaseException, workers: int) -> None:
    def leave() -> None:
        raise raised

    with pytest.raises(DataError, match=rf"sample 9 of train cannot be loaded: {type(raised).__name__}.*, in leave: raise"):
        read(made(Doing(leave), workers=workers))
    stream = as_data(lambda: (Doing(leave)[index] for index in range(12)), "train")
    with pytest.raises(DataError, match=rf"sample 9 of train cannot be loaded: {type(raised).__name__}.*, in leave: raise"):
        read(loader(stream, workers=min(workers, 1)), range(1))


# --- That they end


def test_none_is_left() -> None:
    loading = made(Squares(64), workers=3)
    next(loading.batches(0))
    assert len(children()) == 3
    loading.close()
    assert children() == []
    loading.close()
    again = made(Squares(64), workers=3)
    next(again.batches(0))
    del again
    assert children() == []


def test_they_live_on_from_epoch_to_epoch() -> None:
    loading = made(Squares(16), epochs=3)
    seen = set()
    for epoch in (0, 1, 2, 0):
        list(loading.batches(epoch))
        seen.add(tuple(children()))
    assert len(seen) == 1
    loading.close()


def test_they_load_across_the_end_of_an_epoch() -> None:
    loaded = multiprocessing.Value("i", 0)

    class Watching(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            with loaded.get_lock():
                loaded.value += 1
            return super().__getitem__(index)

    for epochs, expected in ((1, 16), (2, 32)):
        loaded.value = 0
        loading = made(Watching(16), epochs=epochs)
        list(loading.batches(0))
        deadline = time.monotonic() + 60
        while loaded.value < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loaded.value == expected
        loading.close()


SCRIPT = """
    import os, sys, time
    import torch
    from torch.utils.data import Dataset
    from instep.data.loading.loader import Loader
    from instep.data.sources.recognize import as_source

    class Slow(Dataset):
        def __len__(self):
            return 10**6
        def __getitem__(self, index):
            time.sleep(0.01)
            return index

    if __name__ == "__main__":
        loader = Loader(as_source(Slow(), "train"), batch_size=4, seed=0, device=torch.device("cpu"), shuffle=True, workers=3)
        for batch in loader.batches(0):
            if batch.index == 1:
                print("ready", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_no_orphan_is_left(tmp_path: Path, number: int, programs: Programs) -> None:
    """Ctrl-C as a terminal sends it, to every process of the group; the others to the one that began them."""
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    with (
        (tmp_path / "said.txt").open("w") as heard,
        programs.start(["script.py"], cwd=tmp_path, stdout=PIPE, stderr=heard.fileno()) as started,
    ):
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        group = [int(process) for process in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()]
        assert len(group) == 3
        if number == signal.SIGINT:
            os.killpg(started.pid, number)
        else:
            os.kill(started.pid, number)
        assert started.wait() != 0
    said = (tmp_path / "said.txt").read_text()
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in said
        assert "worker" not in said.splitlines()[-1]
    deadline = time.monotonic() + 60
    while any(is_alive(process) for process in group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(process) for process in group)


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


# --- How they are begun


def test_what_the_user_does_in_each_worker_is_done() -> None:
    class Opened(Squares):
        handle = 0

        def open(self) -> None:
            self.handle = 7

        def __getitem__(self, index: int) -> tuple[int, int]:
            return index, self.handle

    def init(number: int) -> None:
        info = get_worker_info()
        assert info is not None
        assert info.id == number
        info.dataset.open()  # type: ignore[attr-defined]  # of the data set that was passed

    assert read(made(Opened(), settings=WorkerSettings(init=init)))[0].data[1].tolist() == [7] * 4


def test_the_runs_own_generators_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    read(made(Noisy(16)))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_beside_threads() -> None:
    """Begun from another thread, and beside one that holds a lock: the workers do not wait for it."""
    expected = read(made(Noisy(16), workers=0))
    holding, done = threading.Event(), threading.Event()

    lock = threading.Lock()

    def hold() -> None:
        with lock:
            holding.set()
            done.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait(60)
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.extend(read(made(Noisy(16)))))
    reader.start()
    reader.join(60)
    done.set()
    holder.join()
    assert_same(got, expected)


def test_begun_from_nothing() -> None:
    """As on Windows and macOS: everything is sent to the worker, and it imports what it needs."""
    settings = WorkerSettings(context="spawn")
    source = as_source(Noisy(12), "train")
    here, there = (
        Loader(source, batch_size=4, seed=0, device=CPU, shuffle=True, workers=workers, settings=settings) for workers in (0, 1)
    )
    assert_same(read(there, range(1)), read(here, range(1)))


def test_what_cannot_be_sent_to_a_worker() -> None:
    transformed = as_source(Squares(), "train").transformed(lambda sample: sample)
    words = "train cannot be sent to a worker process: .*Define its classes and functions at the top of a module"
    with pytest.raises(DescriptionError, match=words):
        read(loader(transformed, workers=1, settings=WorkerSettings(context="spawn")))
