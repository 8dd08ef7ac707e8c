"""Seeds from positions: the only place where randomness is seeded.

Every random draw of a run is a function of where it happens: `(seed, epoch, place)` for a sample, `(seed, step, offset)` for a
forward. A key is 64 bits of BLAKE2b over those numbers, packed little-endian, so it is the same on every platform and in every
version, and neighbouring positions have nothing in common. Nothing needs to be stored to find a key again.

A plain loop gets the randomness of a run by using the same keys:

    for step, (x, y) in enumerate(batches):
        keys.seed_all(keys.for_step(seed, step))
        loss = loss_fn(model(x), y)

>>> seed_all(for_step(seed=0, step=7))
>>> first = torch.rand(3)
>>> seed_all(for_step(seed=0, step=7))
>>> bool((torch.rand(3) == first).all())
True
"""

import hashlib
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from instep.errors import DescriptionError

__all__ = [
    "check_seed",
    "for_batch",
    "for_batch_transform",
    "for_build",
    "for_evaluation",
    "for_folds",
    "for_sample",
    "for_sampler",
    "for_split",
    "for_step",
    "fork_rng",
    "seed_all",
    "seed_host",
    "seed_torch",
    "torch_seeder",
]

_pack = struct.Struct("<3Q").pack

# One hash state per purpose, personalised once and copied per key: 0.5 µs a key, where a new one costs 1.2 µs.
_SAMPLE, _BATCH, _STEP, _EVALUATION, _BUILD, _SPLIT, _SAMPLER, _TRANSFORM, _FOLDS = (
    hashlib.blake2b(digest_size=8, person=b"instep/" + purpose)
    for purpose in (b"sample", b"batch", b"step", b"eval", b"build", b"split", b"sampler", b"transform", b"folds")
)


# What `np.random.seed` calls, without the 7 µs that it takes between two updates to find that out.
_seed_numpy = np.random.mtrand._rand.seed
# What `random.seed` calls for a whole number, without its look at the other kinds of seeds.
_seed_python = super(random.Random, random._inst).seed


def _key(purpose: "hashlib.blake2b", seed: int, first: int, second: int) -> int:
    state = purpose.copy()
    state.update(_pack(seed, first, second))
    return int.from_bytes(state.digest(), "little")


def check_seed(seed: int) -> int:
    """The seed itself, or an error that says which seeds there are.

    >>> check_seed(7)
    7
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise DescriptionError(f"seed={seed!r} is not a whole number from 0 to 2**64 - 1.")
    return seed


def for_sample(seed: int, epoch: int, place: int) -> int:
    """The key of the sample at a place of an epoch: its loading and its augmentation.

    >>> for_sample(0, epoch=0, place=0) == for_sample(0, epoch=1, place=0)
    False
    """
    return _key(_SAMPLE, seed, epoch, place)


def for_batch(seed: int, epoch: int, place: int) -> int:
    """The key of collating the batch whose first sample stands at `place`.

    >>> for_batch(0, epoch=0, place=64) == for_sample(0, epoch=0, place=64)
    False
    """
    return _key(_BATCH, seed, epoch, place)


def for_batch_transform(seed: int, epoch: int, place: int) -> int:
    """The key of transforming that batch as a whole: another one, so that its draws are not those of the collating.

    >>> for_batch_transform(0, epoch=0, place=64) == for_batch(0, epoch=0, place=64)
    False
    """
    return _key(_TRANSFORM, seed, epoch, place)


def for_sampler(seed: int, epoch: int) -> int:
    """The key under which a sampler chooses the samples of an epoch.

    >>> for_sampler(0, epoch=1) == for_sampler(0, epoch=2)
    False
    """
    return _key(_SAMPLER, seed, epoch, 0)


def for_step(seed: int, step: int, offset: int = 0, *, turn: int = 0) -> int:
    """The key of a forward: of the micro-batch that begins `offset` samples into the batch of this step.

    With several objectives in a step, `turn` is the number of the objective; the first is 0 and has the key of a plain run.

    >>> f"{for_step(seed=0, step=7):x}"
    '3d1e99e1b670bf1e'
    """
    if turn:
        state = _STEP.copy()
        state.update(_pack(seed, step, offset) + turn.to_bytes(8, "little"))
        return int.from_bytes(state.digest(), "little")
    return _key(_STEP, seed, step, offset)


def for_evaluation(seed: int, offset: int = 0) -> int:
    """The key of an evaluation's forward over the samples from `offset` on; the same however far training has come.

    >>> for_evaluation(0) == for_evaluation(0, offset=64)
    False
    """
    return _key(_EVALUATION, seed, offset, 0)


def for_build(seed: int) -> int:
    """The key under which a model is built.

    >>> seed_all(for_build(0))
    >>> model = torch.nn.Linear(2, 1)  # has the same weights each time
    """
    return _key(_BUILD, seed, 0, 0)


def for_split(seed: int) -> int:
    """The seed of the order in which validation samples are held out.

    >>> for_split(0) == for_split(1)
    False
    """
    return _key(_SPLIT, seed, 0, 0)


def for_folds(seed: int) -> int:
    """The seed of the order in which samples are dealt to the folds of a cross-validation.

    >>> for_folds(0) == for_split(0)
    False
    """
    return _key(_FOLDS, seed, 0, 0)


def torch_seeder(device: torch.device | None = None) -> Callable[[int], object]:
    """A function that seeds torch's generators for work on `device`: the CPU's, and the device's own.

    It goes to the generator objects directly (1 µs); `torch.manual_seed` goes through every backend (hundreds of µs).

    >>> seed = torch_seeder(torch.device("cpu"))
    >>> _ = seed(for_step(0, 7))
    """
    seed_cpu = torch.default_generator.manual_seed
    if device is None or device.type == "cpu":
        return seed_cpu
    seed_device = _device_seeder(device)

    def seed_both(key: int) -> None:
        seed_cpu(key)
        seed_device(key)

    return seed_both


def _device_seeder(device: torch.device) -> Callable[[int], object]:
    backend = torch.get_device_module(device)
    if device.type not in ("cuda", "xpu"):  # the others have one generator and a manual_seed that reaches only it
        return backend.manual_seed  # type: ignore[no-any-return]
    backend.init()  # the generators exist only from then on
    index = backend.current_device() if device.index is None else device.index
    return backend.default_generators[index].manual_seed  # type: ignore[no-any-return]


def seed_torch(key: int, device: torch.device | None = None) -> None:
    """Seed torch's generators for work on `device` (the CPU's always).

    >>> seed_torch(for_step(0, 7))
    >>> first = torch.rand(1)
    >>> seed_torch(for_step(0, 7))
    >>> bool(torch.rand(1) == first)
    True
    """
    torch_seeder(device)(key)


def seed_host(key: int) -> None:
    """Seed Python's and NumPy's global generators (8 µs).

    >>> seed_host(for_step(0, 7))
    >>> first = random.random()
    >>> seed_host(for_step(0, 7))
    >>> random.random() == first
    True
    """
    _seed_python(key)
    random._inst.gauss_next = None  # type: ignore[attr-defined]  # the second of a pair that was drawn before
    _seed_numpy(key & 0xFFFFFFFF)


def seed_all(key: int, device: torch.device | None = None) -> None:
    """Seed Python's, NumPy's and torch's global generators.

    >>> seed_all(for_step(0, 7))
    >>> first = random.random(), np.random.rand(), float(torch.rand(()))
    >>> seed_all(for_step(0, 7))
    >>> first == (random.random(), np.random.rand(), float(torch.rand(())))
    True
    """
    seed_host(key)
    seed_torch(key, device)


@contextmanager
def fork_rng(device: torch.device | None = None) -> Iterator[None]:
    """Inside, the global generators may be seeded and used; afterwards they have their former state. Like torch.random.fork_rng.

    NumPy's bit generator is exchanged for a spare one and put back (1 µs) instead of being copied twice (90 µs).

    >>> _ = torch.manual_seed(0)
    >>> with fork_rng():
    ...     seed_all(for_step(0, 7))
    ...     _ = torch.rand(100)
    >>> drawn = torch.rand(1)
    >>> _ = torch.manual_seed(0)
    >>> bool(torch.rand(1) == drawn)
    True
    """
    python_state = random.getstate()
    torch_state = torch.default_generator.get_state()
    numpy_generator = np.random.mtrand.get_bit_generator()
    spare = _spare_generators.pop() if _spare_generators else np.random.MT19937(0)
    np.random.mtrand.set_bit_generator(spare)
    backend = None if device is None or device.type == "cpu" else torch.get_device_module(device)
    device_state = backend.get_rng_state(device) if backend else None
    try:
        yield
    finally:
        random.setstate(python_state)
        torch.default_generator.set_state(torch_state)
        np.random.mtrand.set_bit_generator(numpy_generator)
        _spare_generators.append(spare)
        if backend:
            backend.set_rng_state(device_state, device)


# Making one takes 120 µs. A spare is always seeded before it is drawn from, so it carries nothing from one use to the next.
_spare_generators: list[np.random.MT19937] = []
