import pytest
from torch import nn

from instep.errors import DescriptionError
from instep.loop.batch_plan import BatchPlan


def test_how_long_a_run_is() -> None:
    assert BatchPlan(63, 32, epochs=10).steps_per_epoch == 2
    assert BatchPlan(63, 32, epochs=10).total_steps == 20
    assert BatchPlan(63, 32, epochs=10, drop_last=True).total_steps == 10
    assert BatchPlan(63, 32, epochs=10, max_steps=7).total_steps == 7
    assert BatchPlan(63, 32, epochs=1, max_steps=7).total_steps == 2
    assert BatchPlan(63, 32, max_steps=7).total_steps == 7
    assert BatchPlan(63, 32, epochs=0).total_steps == 0


def test_how_a_batch_is_cut() -> None:
    assert BatchPlan(63, 32, update_cycle=4, epochs=1).pieces(32) == (8, 8, 8, 8)
    assert BatchPlan(63, 32, update_cycle=4, epochs=1).pieces(31) == (8, 8, 8, 7)
    assert BatchPlan(63, 32, update_cycle=4, epochs=1).pieces(2) == (1, 1)
    assert BatchPlan(63, 32, micro_batch_size=10, epochs=1).pieces(32) == (8, 8, 8, 8)
    assert BatchPlan(63, 32, micro_batch_size=40, epochs=1).pieces(32) == (32,)


def test_micro_batches_are_halved_where_they_do_not_fit() -> None:
    sizes = BatchPlan(63, 32, epochs=1)
    found = []
    while (finer := sizes.halved(31)) is not None:
        sizes = finer
        found.append((max(sizes.pieces(31)), max(sizes.pieces(32)), len(sizes.pieces(32)), sizes.pieces(3)))
    assert found == [(16, 16, 2, (3,)), (8, 8, 4, (3,)), (4, 4, 8, (3,)), (2, 2, 16, (2, 1)), (1, 1, 32, (1, 1, 1))]
    finer = BatchPlan(63, 32, update_cycle=4, epochs=1).halved(32)
    assert finer is not None
    assert (finer.pieces(32), finer.pieces(5)) == ((4,) * 8, (2, 1, 1, 1))  # the user's own split stays for small batches
    finer = BatchPlan(63, 32, micro_batch_size=10, epochs=1).halved(32)
    assert finer is not None
    assert finer.pieces(32) == (4,) * 8


def test_where_two_samples_are_needed_no_finer_split_has_one() -> None:
    sizes = BatchPlan(63, 32, epochs=1, fewest=2, largest=2)
    assert sizes.pieces(5) == (3, 2)
    assert sizes.pieces(3) == (3,)
    assert sizes.pieces(8) == (2, 2, 2, 2)
    assert sizes.halved(8) is None
    assert sizes.halved(5) is None
    assert sizes.halved(3) is None


def test_when_an_evaluation_is_due() -> None:
    sizes = BatchPlan(63, 32, epochs=4)
    assert [sizes.evaluation_step(every) for every in ("epoch", "2 epochs", 5, "5 updates", None)] == [2, 4, 5, 5, None]
    for every in ("week", "0 epochs", 0, True, 1.5, "epochs 2"):
        with pytest.raises(DescriptionError, match=r'evaluate_every=.* is not known; use "epoch", "2 epochs"'):
            sizes.evaluation_step(every)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 0}, "batch_size=0 must be a whole number, 1 or more"),
        ({"batch_size": 2.5}, r"batch_size=2\.5 must be a whole number"),
        ({"batch_size": None}, "batch_size=None must be a whole number"),
        ({"epochs": -1}, "epochs=-1 must be a whole number, 0 or more"),
        ({"batch_size": 4, "update_cycle": 7}, "batch_size=4: use at most 4. update_cycle is gradient accumulation: it divides"),
        ({"update_cycle": 2, "micro_batch_size": 4}, "update_cycle=2 and micro_batch_size=4 both say how to split"),
        ({"epochs": None}, "how long to train is not said; pass epochs= or max_steps="),
        ({"batch_size": 100, "drop_last": True}, "drop_last=True leaves nothing of 63 samples in batches of 100"),
        ({"samples": 1, "batch_size": 2, "drop_last": True}, "drop_last=True leaves nothing of 1 sample in batches of 2"),
    ],
)
def test_sizes_that_do_not_fit(arguments: dict[str, int | None], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        BatchPlan(**{"samples": 63, "batch_size": 32, "epochs": 1, **arguments})  # type: ignore[arg-type]


def test_batch_norm_needs_two_samples() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    words = "a batch of 1 sample has a micro-batch of one, and the model has BatchNorm"
    with pytest.raises(DescriptionError, match=words):
        BatchPlan(33, 32, epochs=1).require_no_lonely_sample(model)
    with pytest.raises(DescriptionError, match="a batch of 32 samples has a micro-batch of one"):
        BatchPlan(64, 32, update_cycle=32, epochs=1).require_no_lonely_sample(model)
    BatchPlan(33, 32, epochs=1, drop_last=True).require_no_lonely_sample(model)
    BatchPlan(33, 32, epochs=1).require_no_lonely_sample(model.eval())
    BatchPlan(33, 32, epochs=1).require_no_lonely_sample(nn.Linear(2, 2))
    BatchPlan(33, 32, max_steps=1).require_no_lonely_sample(model.train())  # never gets there
    BatchPlan(33, 32, epochs=1).require_no_lonely_sample(nn.BatchNorm2d(2))  # one image has statistics
