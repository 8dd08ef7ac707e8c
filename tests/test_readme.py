"""README and docs tell the truth: every block of Python runs, and prints what the page shows after it."""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import pytest

from blocks import Blocks, blocks, differs
from instep.cli import COMMANDS, doctor
from instep.cli.recipes import starter
from test_rooms import ROOMS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BUILDS = {
    "train",
    "find-lr",
    "find-batch",
    "sweep",
    "profile",
    "bench",
    "prove",
    "preview",
    "graph",
}  # have the options of a file's build() too: here, of the one that `instep init` writes


def options_of(command: str) -> set[str]:
    if command == "doctor":
        return {one.replace("-", "_").strip("_") for one in (*doctor.VALUED, *doctor.FLAGS)}
    module = importlib.import_module(f"instep.cli.{command.replace('-', '_')}")
    own = getattr(module, f"{command.title().replace('-', '')}Options")  # FindLrOptions of find-lr
    of_build = {"help", *inspect.signature(starter.build).parameters} if command in BUILDS else set()
    switched_off = {f"no_{field.name}" for field in dataclasses.fields(own) if field.default is True}
    return {field.name for field in dataclasses.fields(own)} | switched_off | of_build


OPTIONS = {command: options_of(command) for command in COMMANDS}


EXTRAS = (pytest.mark.extras, pytest.mark.filterwarnings("ignore"))  # those of other packages are theirs


CODE = [
    pytest.param(one, id=f"{page.relative_to(ROOT)}-{i}", marks=EXTRAS if one.needs_extras else ())
    for page in PAGES
    if page.parent.name != "learn"  # those have figures too: test_lessons.py runs them
    for i, one in enumerate(blocks(page))
]


@pytest.mark.parametrize("code", CODE)
def test_a_block_runs(code: Blocks) -> None:
    code.check()


def test_an_output_is_compared() -> None:
    assert not differs("loss 0.31 after 5 steps  \n", "loss 0.32 after 5 steps\n")  # one in the last digit
    assert "0.31 is not 0.33" in differs("loss 0.31\n", "loss 0.33\n")
    assert "5 is not 6" in differs("5 steps\n", "6 steps\n")
    assert "'loss 0.31' instead of 'lass 0.31'" in differs("loss 0.31\n", "lass 0.31\n")
    assert "2 lines instead of 1" in differs("a\nb\n", "a\n")
    assert not differs("1.21e-03\n", "1.20e-03\n")


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\S+)", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)):
        assert f"\n{target}:" in makefile


def test_the_tree_is_that_of_the_source() -> None:
    tree = re.search(r"^src/instep/\n((?:  .*\n)+)", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert tree
    shown = [line.split()[0] for line in tree[1].splitlines()]
    assert [name.removesuffix("/").removesuffix(".py") for name in shown] == ROOMS
    assert all(
        ((ROOT / "src" / "instep" / name).is_dir() if name.endswith("/") else (ROOT / "src" / "instep" / name).is_file())
        for name in shown
    )


def test_every_command_is_one() -> None:
    """Commands and options of lines like `instep train train.py --new`, in README and docs."""
    for page in PAGES:
        lines = re.findall(r"^(?:srun )?instep .*|(?<=; )instep .*", page.read_text(encoding="utf-8"), re.MULTILINE)
        for name, *rest in (re.split(r"  +#|;", line)[0].removeprefix("srun ").split()[1:] for line in lines):
            assert name in COMMANDS, f"{page.name}: instep {name}"
            options = {one.replace("-", "_").strip("_") for one in rest if one.startswith("--")}
            assert options <= OPTIONS[name], f"{page.name}: instep {name} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_are_headings(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", prose):
        assert anchor in headings(page.parent / link if link else page), f"{link}#{anchor}"


def headings(page: Path) -> set[str]:
    """The headings of a page as the ends of addresses."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in re.findall(r"^#+ (.*)$", prose, re.MULTILINE)}


PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())


def test_the_pictures_are_there_and_small() -> None:
    shown = re.findall(r"(?:\]\(|src(?:set)?=\")(docs/pictures/[\w.-]+)", PAGES[0].read_text(encoding="utf-8"))
    assert sorted(ROOT / name for name in shown) == PICTURES  # `make pictures` makes them
    sizes = [path.stat().st_size for path in PICTURES]
    assert max(sizes) < 150_000
    assert sum(sizes) < 400_000


def test_every_picture_says_what_it_shows() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    texts = re.findall(r"!\[(.*?)\]\(docs/pictures", text) + re.findall(r'<img alt="(.*?)"', text)
    assert len(texts) == 3
    assert all(len(one) > 40 for one in texts)


@pytest.mark.parametrize("path", [path for path in PICTURES if path.suffix == ".svg"], ids=lambda path: path.name)
def test_a_picture_tells_nothing_of_the_machine_that_made_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"https?:|(?<![\w.<])/[a-z]\w*/|[A-Z]:\\\\|\d{4}-\d\d-\d\d", text)
    assert not re.findall(r"@import|@font-face|<script|url\((?!#)", text)  # nor asks for anything
