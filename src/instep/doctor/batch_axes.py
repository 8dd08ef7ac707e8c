"""Which axis is the batch: what a loader, or a recurrent layer, tells of it."""

from torch import Tensor

from instep.doctor.records import record_class
from instep.doctor.watch.loaders import Loader


@record_class
class Layer:
    """A layer that takes the batch for time."""

    name: str
    batch_first: bool
    shape: tuple[int, ...]
    batch: int


def is_declared(layers: list[tuple[str, bool, tuple[int, ...]]], size: int) -> bool:
    """Whether a recurrent layer has that many samples, and none runs along them, as over the sentences of a text."""
    axes = [(name, *(shape[:2] if first else shape[1::-1])) for name, first, shape in layers]
    if any(time in (size, 1) for _, _, time in axes):
        return False
    return any(samples == size for name, samples, _ in axes if name in ("RNN", "LSTM", "GRU"))


def is_claimed(layers: list[tuple[str, bool, tuple[int, ...]]], found: list[Tensor], size: int) -> bool:
    """Whether a recurrent layer is given the very input (samples, positions, …) and runs over its first axis.

    There is a target for each place along that axis. Over the sentences of a text it would run with what was made of their words,
    and one text at a time.
    """
    if len(found) != 1 or found[0].dim() < 2:
        return False
    given, positions = tuple(found[0].shape[:2]), found[0].shape[1]
    if positions in (1, size) or (found[0].dim() == 2 and found[0].is_floating_point()):
        return False
    recurrent = [(first, shape) for name, first, shape in layers if name in ("RNN", "LSTM", "GRU")]
    return bool(recurrent) and all(shape[:2] == given and not first for first, shape in recurrent)


def gives_batches(loader: Loader, size: int) -> bool:
    """Whether it is samples that stand along the first axis of what a loader gives: as many as it was asked for, and shuffled.

    What puts time first gives tensors as long as the longest sample.
    """
    if loader.sequential or loader.iterable or not loader.trained or loader.batch_size != size:
        return False
    return max(loader.sizes) == size and loader.sizes[size] >= 0.5 * sum(loader.sizes.values())


def find_layer(layers: list[tuple[str, bool, tuple[int, ...]]], batch: int) -> Layer | None:
    """The outermost layer whose time axis is as long as the batch, and whose other axis is not."""
    found = None
    for name, first, shape in layers:
        time, samples = (shape[1], shape[0]) if first else (shape[0], shape[1])
        if time == batch and samples not in (batch, 1):
            found = Layer(name, first, shape, batch)
    return found
