"""Where samples of a batch are mixed: the operation of a forward after which one sample's numbers no longer stand by themselves.

The forward runs twice, with one sample replaced the second time. As long as samples are kept apart, what differs between the two
lies at one place along one axis: also where batch and time are folded into one axis, in either order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from instep.doctor.sites import Locator

LIMIT = 4000  # operations of a forward
LARGEST = 1 << 20  # numbers in what an operation gives
Run = list[tuple[str, str | None, Tensor]]  # name, line and result of each operation of a forward


@dataclass(frozen=True)
class Mixing:
    """The operation that mixes."""

    operation: str
    site: str | None
    index: int = 0  # among the operations of the forward


class Record(TorchFunctionMode):
    """Keeps what every operation gives, and where it stands in the user's source."""

    def __init__(self, locator: Locator) -> None:
        super().__init__()
        self.kept: Run = []
        self._locator = locator

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) and result else result
        if type(first) is Tensor and first.is_floating_point() and first.numel() <= LARGEST and len(self.kept) < LIMIT:
            self.kept.append((getattr(func, "__name__", ""), self._locator.site(1), first.detach().clone()))
        return result


def find_mixing(
    plain: Callable[[], Any], replaced: Callable[[], Any], batch: int, sample: int, locator: Locator
) -> Mixing | None:
    """The first operation of a forward whose result is not apart, from two runs, the second with that sample replaced; None
    where it cannot be told."""
    return first_mixing(plain, replaced, partial(are_apart, batch=batch, sample=sample), locator)


def first_mixing(
    plain: Callable[[], Any],
    replaced: Callable[[], Any],
    apart: Callable[[Tensor], bool],
    locator: Locator,
    runs: list[Run] | None = None,
) -> Mixing | None:
    """The same by any measure of what is apart; `runs` is filled with what the operations of both runs gave."""
    runs = [] if runs is None else runs
    for run in (plain, replaced):
        with Record(locator) as record:
            run()
        runs.append(record.kept)
    before, after = runs
    if [(name, site) for name, site, _ in before] != [(name, site) for name, site, _ in after]:
        return None  # it does other things with other numbers
    for index, ((name, site, one), (_, _, other)) in enumerate(zip(before, after, strict=True)):
        if one.shape != other.shape or apart(one != other):
            continue
        return Mixing(name.strip("_"), site, index)
    return None


def are_apart(changed: Tensor, batch: int, sample: int) -> bool:
    """Whether all that has changed stands at one of `batch` places along some axis, which may hold another one as well."""
    if not bool(changed.any()):
        return True
    for axis, size in enumerate(changed.shape):
        if size % batch:
            continue
        moved = changed.movedim(axis, 0).reshape(size, -1).any(1)
        folded = moved.view(batch, -1), moved.view(-1, batch).t()
        if any(int(each.any(1).sum()) == int(each[sample].any()) for each in folded):
            return True
    return not any(size % batch == 0 for size in changed.shape)  # who knows
