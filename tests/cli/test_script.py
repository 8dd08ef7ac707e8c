"""The file that is trained: found, loaded as a module, and its function found in it."""

import pickle
import queue
import sys
from pathlib import Path

import pytest
import torch

from instep.cli.border import WrongUse
from instep.cli.script import load, recipe


def written(text: str, name: str = "my.py") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def test_build_is_found_and_so_is_another_by_its_name() -> None:
    target = written("def build(): return 1\ndef other(): return 2\n")
    assert load(target).build() == 1
    assert load(f"{target}:").build() == 1
    found = load(f"{target}:other")
    assert (found.build(), found.title, str(found)) == (2, "my-other", "other() of my.py")


def test_a_file_is_a_module_that_can_be_pickled_and_imports_its_neighbours(folder: Path) -> None:
    written("SIZE = 3\n", "project/neighbour.py")
    target = written("from neighbour import SIZE\nclass Net: size = SIZE\ndef build(): return Net()\n", "project/my.py")
    made = load(target).build()
    assert made.size == 3
    assert type(pickle.loads(pickle.dumps(made))) is type(made)
    assert sys.modules["my"].__name__ == "my"
    assert sys.path[0] == str(folder / "project")
    assert sorted(path.name for path in Path("project").glob("*.py*")) == ["my.py", "neighbour.py"]


def test_a_file_does_not_replace_a_module_that_is_loaded() -> None:
    found = load(written("def build(): return __name__\n", "queue.py"))
    assert found.build() == "queue_py"
    assert sys.modules["queue"] is queue


def test_a_file_that_changed_is_loaded_anew() -> None:
    assert load(written("def build(): return 1\n")).build() == 1
    assert load(written("def build(): return 2\n")).build() == 2


def test_what_a_file_draws_while_it_loads_is_the_same_each_time() -> None:
    target = written("import torch\nX = torch.randn(3)\ndef build(): return X\n")
    first = load(target).build()
    torch.randn(7)
    assert torch.equal(first, load(target).build())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("zzz.py", r"^zzz.py does not exist; instep init zzz.py writes one to start from.$"),
        ("no/zzz.py", r"^no/zzz.py does not exist; instep init no/zzz.py"),
        ("trian.py", r"^trian.py does not exist; did you mean train.py\?$"),
        ("train", r"^train does not exist; did you mean train.py\?$"),
        (".", r"^. is a folder; name a file that ends in .py and has build\(\) in it.$"),
        ("notes.txt", r"^notes.txt is no Python file; name a file"),
        ("train.py", r"^train.py has no build\(\); write def build\(lr: float = 1e-3\) -> Trainer: in it.$"),
        ("near.py", r"^near.py has no build\(\); it has bulid\(\). Name one: instep train near.py:bulid$"),
        ("typed.py", r"^typed.py has no build\(\); it has make\(\). Name one: instep train typed.py:make$"),
        ("typed.py:mian", r"^typed.py has no mian\(\); it has main\(\), make\(\). Name one: instep train typed.py:main$"),
        ("number.py", r"^build in number.py is a int; it has to be a function that returns a Trainer.$"),
        ("broken.py", r"^broken.py cannot be loaded: ZeroDivisionError: division by zero\.$"),
        ("script.py", r"^script.py ended while it was loaded \(exit 4\); put what runs it as a script under if __name__"),
    ],
)
def test_files_that_cannot_be_trained(target: str, words: str) -> None:
    written("", "train.py")
    written("", "notes.txt")
    written("from os.path import join\ndef bulid(): ...\ndef _private(): ...\n", "near.py")
    written("def main(): ...\ndef make() -> 'Trainer': ...\n", "typed.py")
    written("build = 3\n", "number.py")
    written("1 / 0\n", "broken.py")
    written("import sys\nsys.exit(4)\n", "script.py")
    with pytest.raises(WrongUse, match=words):
        load(target)
    assert "broken" not in sys.modules


def test_the_recipe_is_a_script_too() -> None:
    assert recipe().title == "digits"
    assert recipe().path.is_file()
