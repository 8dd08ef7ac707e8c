"""Attributes that a run changes: which a checkpoint keeps, which are named, and what looking costs."""

import threading
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from instep import Trainer
from instep.checkpoint import read
from instep.errors import CheckpointError, Notice
from instep.loop.holders import find_holders
from instep.records import GeneratorState
from instep.run import attributes as attributes_file
from instep.run.attribute_walk import AttributeWalk
from instep.run.attributes import Attributes
from instep.run.frozen_values import MOST_ENTRIES
from tiny import CLASSES, FEATURES, make

CPU = torch.device("cpu")


class Plain(nn.Module):
    """What `change` says happens in each forward."""

    def __init__(self, change: Any = None, **values: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.lstm = nn.LSTM(2, 2)  # which holds its parameters in a list of its own
        self._change = change
        for name, value in values.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        if self._change is not None:
            self._change(self)
        scores: Tensor = self.linear(x)
        return scores


def plain(change: Any = None, **values: Any) -> Any:  # so that its attributes can be reached
    return Plain(change, **values)


def attributes(model: nn.Module, loss: Any = None) -> Attributes:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    holders = find_holders(model, loss=loss, objective=None, metrics=None, transform=None)
    found = Attributes(holders, {"": optimizer}, CPU)
    found.begin()
    return found


def last_kept(folder: Path) -> Any:
    return read(sorted((folder / "checkpoints").glob("step-*"))[-1]).parts.get("attributes")


def test_only_what_has_changed_is_kept() -> None:
    model = plain(count=0, name="a", table={1: torch.zeros(2)}, parts=[1, 2], rate=0.5)
    found = attributes(model)
    assert found.changed() == {}
    model.count, model.table[1][0] = 3, 1.0
    kept = found.changed()
    assert kept.keys() == {"model"}
    assert kept["model"].keys() == {"count", "table"}
    model.count, model.table[1][0] = 0, 0.0
    assert found.changed() == {}


def test_a_run_that_changes_nothing_has_no_such_part(tmp_path: Path) -> None:
    make(plain(), folder=tmp_path / "run", epochs=1).fit()
    assert last_kept(tmp_path / "run") is None


def test_what_is_put_back_stays_the_same_thing() -> None:
    generator, tensor, recent, array = torch.Generator(), torch.zeros(3), deque([1, 2], maxlen=2), np.zeros(2)
    model = plain(generator=generator, held=[tensor], recent=recent, array=array, pair=(tensor, 1), kinds={"a"}, none=None)
    found = attributes(model)
    begun = generator.get_state()
    torch.rand(1, generator=generator)
    tensor += 1
    recent.append(3)
    array += 1
    model.kinds, model.none, model.made = {"b"}, 4, "later"
    kept, moved = found.changed(), generator.get_state()
    found.restore({})
    assert torch.equal(generator.get_state(), begun)
    assert not tensor.any()
    assert (list(recent), array.tolist(), model.kinds, model.none) == ([1, 2], [0, 0], {"a"}, None)
    assert not hasattr(model, "made")
    found.restore(kept)
    assert torch.equal(generator.get_state(), moved)
    assert tensor.all()
    assert (list(recent), array.tolist(), model.kinds, model.none, model.made) == ([2, 3], [1, 1], {"b"}, 4, "later")
    assert model.held[0] is tensor
    assert model.recent is recent


def test_a_generator_that_is_made_late_is_made_again() -> None:
    model = plain(own=None, other=None)
    found = attributes(model)
    model.own, model.other = torch.Generator().manual_seed(3), np.random.RandomState(4)
    kept = found.changed()
    drawn = (torch.rand(2, generator=model.own).tolist(), model.other.randn())
    model.own = model.other = None
    found.restore(kept)
    assert (torch.rand(2, generator=model.own).tolist(), model.other.randn()) == drawn


def test_a_large_tensor_is_compared_without_a_copy_and_kept_whole() -> None:
    model = plain(large=[torch.zeros(300, 300)])
    found = attributes(model)
    model.large[0].data[7, 8] += 1
    kept = found.changed()["model"]["large"]
    assert kept[0][7, 8] == 1
    model.large[0][7, 8] = 0
    assert found.changed() == {}


def test_a_state_that_fits_nothing_is_an_error_that_names_it() -> None:
    found = attributes(plain(own=1))
    with pytest.raises(CheckpointError, match=r"model\.own cannot be put back as the checkpoint has it"):
        found.restore({"model": {"own": GeneratorState("torch", 3)}})


def test_what_nothing_holds_any_more_is_named() -> None:
    with pytest.warns(Notice, match=r"the checkpoint has model\.gone\.count, and nothing in this run holds that"):
        attributes(plain()).restore({"model.gone": {"count": 3}})


def replace_it(model: Any) -> None:
    model.state = threading.Event()


def test_what_cannot_be_kept_is_named_before_the_second_epoch(tmp_path: Path) -> None:
    trainer = make(plain(replace_it, state=None), folder=tmp_path / "run")
    words = r"model\.state \(a Event\) changes while the run trains, and a checkpoint cannot keep it.*register_buffer.*set_extra_"
    with pytest.warns(Notice, match=words) as told:
        for update in trainer.updates():
            if update.index == 3:
                break
    assert update.epoch == 0
    assert len(told) == 1


class Saving(Plain):
    def get_extra_state(self) -> Any:
        return 1

    def set_extra_state(self, state: Any) -> None:
        pass


def made_once(model: Any) -> None:
    model.state = model.state or threading.Event()
    model.cache[len(model.cache) % 2] = torch.zeros(1).to_sparse() if not model.cache else None


@pytest.mark.parametrize(
    "make_model",
    [
        lambda: plain(made_once, state=None, cache={}),
        lambda: plain(lambda model: model.state.wait(0), state=threading.Event()),
        lambda: Saving(replace_it, state=None),
        lambda: plain(lambda model: setattr(model, "function", lambda: 0), function=None),
    ],
    ids=["made in the first update", "unknown inside", "keeps itself", "a function"],
)
def test_what_may_be_harmless_is_not_named(make_model: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        make(make_model(), folder=tmp_path / "run").fit()


def test_a_list_that_becomes_too_long_is_named(tmp_path: Path) -> None:
    def grow(model: Any) -> None:
        model.seen.extend([0] * (MOST_ENTRIES // 5))

    trainer = make(plain(grow, seen=[]), folder=tmp_path / "run")
    with pytest.warns(Notice, match=r"model\.seen \(a list\) changes while the run trains, and a checkpoint cannot keep it"):
        trainer.fit()
    assert last_kept(tmp_path / "run") is None


def test_what_no_file_keeps_is_named() -> None:
    model = plain(odd={("a", frozenset()): 1})
    found = attributes(model)
    model.odd = {(1, (threading.Event,)): 2}
    with pytest.warns(Notice, match=r"model\.odd \(a dict\) changes"):
        assert found.changed() == {}


def test_a_plain_run_pays_nothing_in_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are made at the start, after two updates, at the end of the first epoch and at each checkpoint; else none."""
    looks = 0

    class Counting(AttributeWalk):
        def __init__(self, *arguments: Any) -> None:
            nonlocal looks
            looks += 1
            super().__init__(*arguments)

    monkeypatch.setattr(attributes_file, "AttributeWalk", Counting)

    def counted(**changes: Any) -> tuple[int, Trainer]:
        nonlocal looks
        looks = 0
        trainer = make(plain(), batch_size=5, **changes)
        for update in trainer.updates():
            assert update.step < 2 or not trainer.optimizer._optimizer_step_post_hooks
        return looks, trainer

    assert counted()[0] == 0
    short, _ = counted(folder=tmp_path / "a", epochs=2, checkpoint_every=None)
    long, _ = counted(folder=tmp_path / "b", epochs=6, checkpoint_every=None)
    assert short == long


def test_a_trainer_that_was_torn_out_of_an_update_has_it_as_in_the_checkpoint(tmp_path: Path) -> None:
    def count(model: Any) -> None:
        model.count += model.step > 5  # begins after the first checkpoint, which does not have it
        model.step += 1
        if model.step == 7 and not torn:
            torn.append(True)
            raise KeyboardInterrupt

    torn: list[bool] = []
    model = plain(count, count=0, step=0)
    trainer = make(model, folder=tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    trainer.fit()
    assert (model.step, model.count) == (12, 6)
