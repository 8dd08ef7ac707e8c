"""What `import instep` offers, and what it costs."""

import subprocess
import sys

import pytest

import instep
from complaints import complaints


def test_each_public_name_is_the_same_thing_twice() -> None:
    """A name that is also a module could turn into that module once something imports it."""
    assert not complaints(assert_same_thing_twice, [(name, name) for name in instep.__all__])


def assert_same_thing_twice(name: str) -> None:
    first = getattr(instep, name)
    assert getattr(instep, name) is first
    assert first.__doc__
    home = instep._HOME[name]
    assert home == f"instep.{name}" or getattr(sys.modules[home], name) is first


def test_nothing_else_is_public() -> None:
    assert sorted(instep.__all__) == instep.__all__ == sorted(instep._HOME)
    assert set(dir(instep)) == {*instep.__all__, "__version__"}
    with pytest.raises(AttributeError, match="module 'instep' has no attribute 'Trainerr'"):
        _ = instep.Trainerr


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_and_help_leave_torch_alone() -> None:
    said = python(
        "import sys, instep, instep.cli\n"
        "code = instep.cli.main(['--help'])\n"
        "print(code, [m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    assert "usage: instep" in said
    assert said.splitlines()[-1] == "0 []"
