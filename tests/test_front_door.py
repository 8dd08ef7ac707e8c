"""What `import instep` offers, and what it costs."""

import sys

import pytest

import instep
from complaints import complaints
from programs import Programs


def test_each_public_name_is_the_same_thing_twice() -> None:
    """A name that is also a module could turn into that module once something imports it."""
    assert not complaints(assert_same_thing_twice, [(name, name) for name in instep.__all__])


def assert_same_thing_twice(name: str) -> None:
    first = getattr(instep, name)
    assert getattr(instep, name) is first
    assert first.__doc__
    home = instep._HOME[name]
    assert home == f"instep.{name}" or getattr(sys.modules[home], name) is first


DATA = "Order class_balanced cutmix digits folds image_folder mixup on pad pieces source weighted".split()  # noqa: SIM905
PUBLIC = """
    BatchSizeSearch Cycles Evaluation History Loss OneCycle Proof RangeTest Replay StepResult SweepResult Trainer Update
    UpdateCycle accuracy data errors evaluating freeze frozen graph keys load_classic load_model param_groups preview prove
    prove_resume prove_update_cycle replay save_classic save_model schedules sweep unfreeze watch
""".split()  # noqa: SIM905


def test_the_public_names() -> None:
    """A new name is a promise: it is added here on purpose."""
    assert instep.__all__ == PUBLIC
    assert instep.data.__all__ == DATA


def test_nothing_else_is_public() -> None:
    assert sorted(instep.__all__) == instep.__all__ == sorted(instep._HOME)
    assert set(dir(instep)) == {*instep.__all__, "__version__"}
    with pytest.raises(AttributeError, match="module 'instep' has no attribute 'Trainerr'"):
        _ = instep.Trainerr
    assert set(dir(instep.data)) == set(instep.data.__all__) == {*instep.data._HOME, "pieces"}
    with pytest.raises(AttributeError, match=r"module 'instep\.data' has no attribute 'sauce'"):
        _ = instep.data.sauce


def test_a_name_of_data_stays_what_it_is_when_its_modules_are_imported(programs: Programs) -> None:
    code = (
        "import instep.data as data, importlib, pkgutil\n"
        "for module in pkgutil.walk_packages(data.__path__, 'instep.data.'): importlib.import_module(module.name)\n"
        "print([name for name in data.__all__ if not callable(getattr(data, name))])"
    )
    assert programs.run(["-c", code], check=True).stdout == "[]\n"


def test_an_update_cycle_alone_loads_few_modules(programs: Programs) -> None:
    code = "import sys\nfrom instep import UpdateCycle\nprint(*sorted(m for m in sys.modules if m.startswith('instep.')))"
    said = programs.run(["-c", code], check=True).stdout
    assert len(said.split()) <= 27, said
    assert not {"instep.data.loading", "instep.distributed.world", "instep.run"} & set(said.split())
