"""Promise 2, interrupt, by a power cut: the disk has what was synced, and of the rest as little as it likes. The run goes on.

The changes that a run makes are recorded. Before each, the worst disks that a cut may leave are made: names that were not synced
are gone or there, contents that were not synced are missing, or zeros.
"""

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from instep import Trainer
from instep.checkpoint import read_newest
from promises.test_interrupt import assert_same, result
from tiny import X, Y, make

Tree = dict[str, bytes | None]  # the content of each file by its path; None for a folder
RUN = Path("runs", "tiny")
CHANGES = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "truncate")


class RecordedDisk:
    """A folder in memory that knows, by inode, what of it was synced. Inodes are not used again there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.trees: list[Tree] = []  # what cuts may leave, in the order of the cuts
        self.least: list[Tree] = []  # of these the ones with nothing but what was synced
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._lock = threading.RLock()  # a checkpoint is written in a thread

    @contextmanager
    def recording(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CHANGES:
                patch.setattr(os, name, self._recorded(name, getattr(os, name)))
            yield
        self._cut()

    def _recorded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self._cut()
                returned = real(*arguments, **options)
                if name == "fsync":
                    self._note_synced(arguments[0])
                return returned

        return call

    def _note_synced(self, descriptor: int) -> None:
        found, path = os.fstat(descriptor), Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(self.root):
            return
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = _names_in(path)
        else:
            self._contents[found.st_ino] = path.read_bytes()

    def _cut(self) -> None:
        with self._lock:
            files = {path.stat().st_ino: path for path in self.root.rglob("*")} | {self.root.stat().st_ino: self.root}
            for names_are_there in (False, True):
                for has_zeros in (False, True):
                    tree: Tree = {}
                    self._leave(tree, self.root.stat().st_ino, "", files if names_are_there else {}, files if has_zeros else {})
                    if tree not in self.trees:
                        self.trees.append(tree)
                    if not names_are_there and not has_zeros and tree not in self.least[-1:]:
                        self.least.append(tree)

    def _leave(self, tree: Tree, inode: int, at: str, named: dict[int, Path], written: dict[int, Path]) -> None:
        names = _names_in(named[inode]) if inode in named else self._names.get(inode, {})
        for name, (child, is_folder) in names.items():
            path = f"{at}{name}"
            if is_folder:
                tree[path] = None
                self._leave(tree, child, f"{path}/", named, written)
            else:
                synced = self._contents.get(child, b"")
                more = written[child].stat().st_size - len(synced) if child in written else 0
                tree[path] = synced + bytes(max(0, more))


def _names_in(folder: Path) -> dict[str, tuple[int, bool]]:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}


def build(disk: Path) -> Trainer:
    """8 updates, with an evaluation, a best checkpoint and some that are deleted."""
    options: dict[str, Any] = {"valid": (X[:9], Y[:9]), "checkpoint_every": 3, "log_every": 1, "keep": 1, "epochs": 2}
    return make(folder=disk / RUN, **options)


def write_tree(tree: Tree, root: Path) -> None:
    root.mkdir()
    for name, content in tree.items():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)


@pytest.fixture
def memory() -> Iterator[Path]:
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK):
        pytest.skip("needs a disk in memory, whose inodes are not used twice")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_power_cut_before_any_change_to_the_disk(memory: Path) -> None:
    recorded = RecordedDisk(memory / "recorded")
    recorded.root.mkdir()
    with recorded.recording():
        trainer = build(recorded.root)
        for update in trainer.updates():
            if update.step == 4:
                break  # and a pause, whose checkpoint is deleted later
        trainer = build(recorded.root)
        trainer.fit()
    expected = result(trainer, recorded.root / RUN)
    newest = []
    for tree in recorded.trees:
        disk = memory / "disk"
        write_tree(tree, disk)
        found, skipped = read_newest(disk / RUN / "checkpoints")
        assert not skipped  # what has its name is whole
        newest.append(0 if found is None else found.step)
        again = build(disk)
        again.fit()
        assert again.resumed_from == (None if found is None else found.step)
        assert_same(expected, result(again, disk / RUN))
        shutil.rmtree(disk)
    least = [newest[recorded.trees.index(tree)] for tree in recorded.least]
    assert least == sorted(least)  # what is on the disk stays
    assert set(least) == set(newest) == {0, 3, 4, 5, 6, 8}
    assert len(newest) > 50
