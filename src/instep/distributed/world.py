"""The world: the processes that train together, found in the launcher's environment or in a process group that is open.

Owns the process group where nobody had opened one: it is closed when the process ends, however it ends, and when a run fails on
this process alone. Why it failed is left in the store, where the others find it when they lose this one.
"""

import atexit
import os
import pickle
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from instep.errors import DescriptionError, InstepError, Notice, PeerError
from instep.text import plural

T = TypeVar("T")
TIMEOUT_S = 600.0
_FAILURE = "instep/failure"
_LOST = ("connection closed by peer", "connection reset", "timed out waiting", "broken pipe", "/gloo/", "nccl")


class World:
    """The processes that train together: here this one alone. A `Group` is a world of several.

    Every method that gives a value of all processes has to be called on all of them.
    """

    rank = 0
    size = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.rank == 0

    @property
    def reaches_hosts(self) -> bool:
        """Whether what is in the host's memory can be exchanged, beside what is on the devices."""
        return True

    def device(self) -> torch.device | None:
        """The device of this process among others on its machine; None where it has a machine's to itself, or there is none."""
        return None

    def sum(self, numbers: Tensor) -> Tensor:
        """The sums over all processes, in place."""
        return numbers

    def gather_objects(self, value: T) -> list[T]:
        """What each process gave, by rank."""
        return [value]

    def broadcast_object(self, value: T) -> T:
        """What rank 0 gave."""
        return value

    def gather_on_rank0(self, value: T) -> list[T] | None:
        """On rank 0 what each process gave, by rank; None on the others."""
        return [value]

    def run_on_rank0(self, do: Callable[[], T]) -> T:
        """Rank 0 does it, all have what came of it; what it raises is raised on all of them."""
        return do()

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process does not go on: they are waiting for it."""

    def explain(self, error: BaseException, *, step: int) -> BaseException:
        """An error of the exchange as a sentence; any other as it is."""
        return error

    def close(self) -> None:
        """Close the process group if it is ours."""


ALONE = World()


class Group(World):
    """A process among others, in torch's process group."""

    def __init__(self, rank: int, size: int, *, timeout_s: float, store: Any = None, opened: bool = False) -> None:
        self.rank = rank
        self.size = size
        self.timeout_s = timeout_s
        self._store = store
        self._opened = opened  # by us, so that it is ours to close

    @property
    def reaches_hosts(self) -> bool:
        """Whether what is in the host's memory can be exchanged, beside what is on the devices."""
        return "cpu:" in str(dist.get_backend_config())

    def device(self) -> torch.device | None:
        """The device of this process on its machine; None where there is no accelerator with one for each."""
        if not torch.accelerator.is_available():
            return None
        local = int(os.environ.get("LOCAL_RANK", self.rank))
        count = torch.accelerator.device_count()
        found = torch.accelerator.current_accelerator()
        if found is None or found.type == "mps":
            return None
        if local >= count:
            raise DescriptionError(
                f"this machine has {count} devices, and process {local} of it has none; start at most {count} processes on it."
            )
        torch.accelerator.set_device_index(local)
        return torch.device(found.type, local)

    def sum(self, numbers: Tensor) -> Tensor:
        """The sums over all processes, in place."""
        dist.all_reduce(numbers)
        return numbers

    def gather_objects(self, value: T) -> list[T]:
        """What each process gave, by rank."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def broadcast_object(self, value: T) -> T:
        """What rank 0 gave."""
        box: list[Any] = [value if self.is_first else None]
        dist.broadcast_object_list(box, src=0)
        given: T = box[0]
        return given

    def gather_on_rank0(self, value: T) -> list[T] | None:
        """On rank 0 what each process gave, by rank; None on the others."""
        found: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, found, dst=0)
        return found

    def run_on_rank0(self, do: Callable[[], T]) -> T:
        """Rank 0 does it, all have what came of it; what it raises is raised on all of them."""
        value: Any = None
        raised: BaseException | None = None
        if self.is_first:
            try:
                value = do()
            except Exception as error:
                raised = error
        value, told = self.broadcast_object((value, _travelling(raised)))
        if told is not None:
            raise raised or told
        given: T = value
        return given

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process does not go on: they are waiting for it."""
        if self._store is not None and not isinstance(error, PeerError):
            try:
                self._store.set(_FAILURE, f"rank {self.rank}: {type(error).__name__}: {error}")
            except Exception:  # the store is gone with the process that held it
                self._store = None
        self.close()

    def explain(self, error: BaseException, *, step: int) -> BaseException:
        """An error of the exchange as a sentence; any other as it is."""
        text = str(error)
        is_lost = isinstance(error, dist.DistError) or any(sign in text.lower() for sign in _LOST)
        if isinstance(error, InstepError) or not isinstance(error, RuntimeError) or not is_lost:
            return error
        said = self._told_failure()
        lost = f"rank {self.rank} of {self.size} lost another process after {plural(step, 'update')}"
        if said:
            return PeerError(f"{lost}, which says: {said}")
        return PeerError(
            f"{lost}: it ended, or gave no answer within timeout_s={self.timeout_s:g}. Its last words are in its own output. "
            f"({text.splitlines()[0][:200] if text else type(error).__name__})"
        )

    def close(self) -> None:
        """Close the process group if it is ours."""
        if self._opened and dist.is_initialized():
            self._opened = False
            _OPEN.clear()
            dist.destroy_process_group()

    def _told_failure(self) -> str | None:
        try:
            if self._store is not None and self._store.check([_FAILURE]):
                told: str = self._store.get(_FAILURE).decode()
                return told
        except Exception:
            return None
        return None


def in_turn(by_rank: list[list[T]]) -> list[T]:
    """What was dealt to processes in turn, in its order again."""
    rounds = max(map(len, by_rank), default=0)
    return [dealt[i] for i in range(rounds) for dealt in by_rank if i < len(dealt)]


# The process group is one for the whole process, as torch's is; several Trainers share it.
_OPEN: list[Group] = []
_stores: list[Any] = []
_times_opened = 0


def find_world(*, timeout_s: float | None = None) -> World:
    """The world that this process is part of."""
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise DescriptionError(f"timeout_s={timeout_s!r} must be a number of seconds above 0.")
    timeout_s = timeout_s or TIMEOUT_S
    if _OPEN and dist.is_initialized():
        return _OPEN[0]
    if dist.is_available() and dist.is_initialized():
        size = dist.get_world_size()
        return ALONE if size == 1 else Group(dist.get_rank(), size, timeout_s=timeout_s)
    asked = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if asked["RANK"] is None or asked["WORLD_SIZE"] is None:
        return ALONE
    rank, size = _number("RANK", asked["RANK"]), _number("WORLD_SIZE", asked["WORLD_SIZE"])
    return ALONE if size == 1 else _open_group(rank, size, timeout_s)


def _open_group(rank: int, size: int, timeout_s: float) -> Group:
    """A process group of our own, and the world that it makes."""
    from instep.distributed.meeting import met  # one process alone meets nobody

    global _times_opened
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise DescriptionError(
            f"WORLD_SIZE={size} says that {size} processes train together, and {' and '.join(missing)} is not set; start "
            "them with torchrun, or unset WORLD_SIZE."
        )
    timeout = timedelta(seconds=timeout_s)
    try:
        if not _stores:
            _stores.append(next(rendezvous("env://", rank, size, timeout=timeout))[0])
        _times_opened += 1
        # A prefix of its own: what a group that was closed, or a start that failed, left in the store would lead this one astray.
        word = met(PrefixStore(f"instep/{_times_opened}", _stores[0]), rank, size, timeout)
        store = PrefixStore(f"instep/{word}", _stores[0])
        store.set_timeout(timeout)
        dist.init_process_group(_backend(), store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise PeerError(
            f"rank {rank} of {size} did not find the others at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} within "
            f"timeout_s={timeout_s:g}: {str(error).splitlines()[0]}"
        ) from error
    world = Group(rank, size, timeout_s=timeout_s, store=store, opened=True)
    _OPEN.append(world)
    atexit.register(world.close)
    if not world.is_first:
        warnings.simplefilter("ignore", Notice)  # rank 0 speaks
    return world


def _backend() -> str:
    """What is on the CPU goes by gloo, what is on a device by its own way."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    own = {"cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
    return own.get("cpu" if found is None else found.type, "gloo")


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise DescriptionError(f"the environment has {name}={value}, which is no number; start the processes with torchrun.")
    return int(value)


def _travelling(error: BaseException | None) -> BaseException | None:
    """The error, or one with its words where it cannot be sent and made again on the other side."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InstepError(f"{type(error).__name__}: {error}")
    return error
