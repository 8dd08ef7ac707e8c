"""Which axis is the batch: what a loader, or a recurrent layer, tells of it."""

from instep.doctor.watch.loaders import Loader


def is_declared(layers: list[tuple[str, bool, tuple[int, ...]]], size: int) -> bool:
    """Whether a recurrent layer has that many samples, and none runs along them, as over the sentences of a text."""
    axes = [(name, *(shape[:2] if first else shape[1::-1])) for name, first, shape in layers]
    if any(time in (size, 1) for _, _, time in axes):
        return False
    return any(samples == size for name, samples, _ in axes if name in ("RNN", "LSTM", "GRU"))


def gives_batches(loader: Loader, size: int) -> bool:
    """Whether it is samples that stand along the first axis of what a loader gives: as many as it was asked for, and shuffled.

    What puts time first gives tensors as long as the longest sample.
    """
    if loader.sequential or loader.iterable or not loader.trained or loader.batch_size != size:
        return False
    return max(loader.sizes) == size and loader.sizes[size] >= 0.5 * sum(loader.sizes.values())
