import random

import numpy as np
import pytest
import torch

from instep import keys
from instep.errors import DescriptionError

GOLDEN = {
    "sample": 0x4C1625130776FE2B,
    "far sample": 0x46B893CFF7F55C7D,
    "batch": 0x8826656CCC2F7C3B,
    "step": 0x032D836B979638B0,
    "later step": 0x8BA793266953AA66,
    "evaluation": 0xB885BDC06BBDF545,
    "build": 0x781CFCE2D275FBE6,
    "split": 0x0EDAC156D6523B8C,
    "batch transform": 0xCF7771D4BEA33974,
    "sampler": 0x96554B8FD5558E36,
}


def test_golden_values_never_change() -> None:
    """A run that is resumed by a later version, or on another platform, needs the very same keys."""
    assert keys.for_sample(0, 0, 0) == GOLDEN["sample"]
    assert keys.for_sample(2**64 - 1, 3, 10**12) == GOLDEN["far sample"]
    assert keys.for_batch(0, 0, 0) == GOLDEN["batch"]
    assert keys.for_step(0, 0) == GOLDEN["step"]
    assert keys.for_step(1, 17, 8) == GOLDEN["later step"]
    assert keys.for_evaluation(0) == GOLDEN["evaluation"]
    assert keys.for_build(0) == GOLDEN["build"]
    assert keys.for_split(0) == GOLDEN["split"]
    assert keys.for_batch_transform(0, 0, 0) == GOLDEN["batch transform"]
    assert keys.for_sampler(0, 0) == GOLDEN["sampler"]


def test_golden_draws_never_change() -> None:
    with keys.fork_rng():
        keys.seed_all(keys.for_step(0, 0))
        assert random.getrandbits(32) == 4116478656
        assert np.random.randint(2**31) == 1896284697
        assert torch.randint(2**31, ()).item() == 415719040


def positions() -> list[int]:
    return (
        [keys.for_sample(s, e, p) for s in range(8) for e in range(8) for p in range(64)]
        + [keys.for_step(s, i, o) for s in range(8) for i in range(64) for o in range(8)]
        + [f(s, p) for f in (keys.for_evaluation, keys.for_sampler) for s in range(8) for p in range(64)]
        + [f(s) for f in (keys.for_build, keys.for_split) for s in range(64)]
    )


def test_no_two_positions_share_a_key() -> None:
    found = positions()
    assert len(set(found)) == len(found)
    assert len({key & 0xFFFFFFFF for key in found}) >= len(found) - 3  # the CPU's generator takes 32 bits of it


def test_neighbouring_keys_differ_in_half_of_their_bits() -> None:
    near = [(keys.for_step(0, i), keys.for_step(0, i + 1)) for i in range(2000)]
    near += [(keys.for_sample(0, 0, i), keys.for_sample(0, 1, i)) for i in range(2000)]
    flipped = np.array([[(a ^ b) >> bit & 1 for bit in range(64)] for a, b in near])
    assert abs(flipped.mean() - 0.5) < 0.004  # 0.5/√256,000 = 0.001
    assert (abs(flipped.mean(axis=0) - 0.5) < 0.04).all()  # every bit for itself: 0.5/√4000 = 0.008


@pytest.mark.parametrize("source", ["torch", "numpy", "python"])
def test_streams_of_neighbouring_positions_are_unrelated(source: str) -> None:
    draws = []
    with keys.fork_rng():
        for step in range(400):
            keys.seed_all(keys.for_step(0, step))
            draws.append(
                torch.rand(50).numpy()
                if source == "torch"
                else np.random.rand(50)
                if source == "numpy"
                else np.array([random.random() for _ in range(50)])
            )
    table = np.stack(draws)
    next_step = np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]
    first_draws = np.histogram(table[:, 0], bins=10, range=(0, 1))[0]
    assert abs(next_step) < 0.03  # 1/√19,950 = 0.007
    assert ((first_draws - 40) ** 2 / 40).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001


def test_forked_generators_are_put_back() -> None:
    keys.seed_all(5)
    expected = (random.random(), np.random.rand(), torch.rand(()).item())
    keys.seed_all(5)
    with keys.fork_rng():
        keys.seed_all(6)
        inside = (random.random(), np.random.rand(), torch.rand(()).item())
        with keys.fork_rng():
            keys.seed_all(7)
            np.random.rand()
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == expected
    assert inside != expected


def test_forked_generators_are_put_back_after_an_error() -> None:
    keys.seed_all(5)
    expected = np.random.rand()
    keys.seed_all(5)
    with pytest.raises(RuntimeError, match="stop"), keys.fork_rng():
        np.random.rand()
        raise RuntimeError("stop")
    assert np.random.rand() == expected


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0"])
def test_a_seed_that_is_none(seed: int) -> None:
    with pytest.raises(DescriptionError, match=r"is not a whole number from 0 to 2\*\*64 - 1"):
        keys.check_seed(seed)


def test_players_of_a_step_have_keys_of_their_own() -> None:
    assert keys.for_step(7, 3, 16, turn=0) == keys.for_step(7, 3, 16)
    found = {keys.for_step(7, 3, offset, turn=turn) for offset in (0, 16) for turn in range(4)}
    assert len(found) == 8
    assert keys.for_step(7, 3, 16, turn=1) == 16039247704257751924
