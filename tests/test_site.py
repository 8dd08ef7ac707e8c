"""The site: every page is in its navigation, every public name in its reference, and its tools find what is wrong."""

import importlib.util
import inspect
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import instep
from complaints import complaints

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    found = nav.values() if isinstance(nav, dict) else nav
    return [path for entry in found for path in entries(entry)]


NAV = entries(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])


def test_the_navigation_is_complete() -> None:
    """A page that is missing here is added to `nav` in zensical.toml, where readers would look for it."""
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    gathered = {"readme.md", "changelog.md", "contributing.md", "examples/index.md"}
    assert sorted(pages - set(NAV)) == []
    assert sorted(set(NAV) - pages - gathered) == []
    assert len(NAV) == len(set(NAV))


def test_the_first_page_leads_to_every_section() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    sections = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert [section for section in sections if not linked & set(entries(section)) and "Examples" not in section] == []


def test_every_page_is_gathered_with_what_it_links_to(tmp_path: Path) -> None:
    places = tool("site_pages").gather(tmp_path / "pages")
    assert {"docs/trainer.md", "README.md", "src/instep/doctor/pages/missing-zero-grad.md", "examples/gan.py"} <= set(places)
    doctor = (tmp_path / "pages" / "doctor.md").read_text(encoding="utf-8")
    assert "](doctor/missing-zero-grad.md)" in doctor
    assert "](doctor.md" in (tmp_path / "pages" / "readme.md").read_text(encoding="utf-8")
    assert "```python\n" in (tmp_path / "pages" / "examples" / "gan.py.md").read_text(encoding="utf-8").replace("````", "```")
    assert [name for name in NAV if not (tmp_path / "pages" / name).exists()] == []
    text = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "pages").rglob("*.md"))
    assert not re.findall(r"^```python (?:continued|extras)", text, re.MULTILINE)


def test_links_are_turned_outside_of_code_alone() -> None:
    pages = tool("site_pages")
    text = "[a](data.md#b) [out](https://x.org) [here](#c)\n```\n[a](data.md)\n```\n"
    assert pages.turn_links(text, "docs/reference/index.md".replace("reference/", "")) == (text, ["docs/data.md"])
    assert pages.turn_links("[e](../examples/gan.py)", "docs/plots.md") == ("[e](examples/gan.py.md)", ["examples/gan.py"])
    assert pages.turn_links('<img src="docs/pictures/train.svg">', "README.md")[0] == '<img src="pictures/train.svg">'
    with pytest.raises(pages.DeadLink, match=r"docs/data\.md links to gone\.md, which is no file"):
        pages.turn_links("[gone](gone.md)", "docs/data.md")


PAGE = '<html><body id="top"><h2 id="here">x</h2><a href="%s">link</a>%s</body></html>'
DEAD = {
    "other.html": "other.html leads to no file",
    "#there": "#there leads to no anchor of that page",
    "second.html#here2": "second.html#here2 leads to no anchor",
    "../outside/": "leads to no file",
}


def test_the_check_of_the_site_finds_dead_links_and_foreign_hosts(tmp_path: Path) -> None:
    check = tool("check_site").check
    (tmp_path / "second.html").write_text(PAGE % ("index.html#here", ""))
    for link in ("second.html#here", "#here", "second.html", "https://example.org/x"):
        (tmp_path / "index.html").write_text(PAGE % (link, ""))
        assert check(tmp_path) == []
    for link, said in DEAD.items():
        (tmp_path / "index.html").write_text(PAGE % (link, ""))
        assert [said in complaint for complaint in check(tmp_path)] == [True], link
    for tag in (
        '<script src="https://cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.org/a.css">',
    ):
        (tmp_path / "index.html").write_text(PAGE % ("#here", tag))
        assert [complaint.partition(": ")[2].split()[0] for complaint in check(tmp_path)] == ["fetches"]


def documented() -> set[str]:
    """What the pages of the reference show, by the name that users write."""
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: ([\w.]+)", page, re.MULTILINE)}
    members = re.findall(r"^::: (instep\.errors)\n(?: {4}.*\n)*?((?: {8}- \w+\n)+)", "".join(pages), re.MULTILINE)
    shown |= {f"{home}.{name}" for home, names in members for name in re.findall(r"\w+", names)}
    shown |= {f"instep.keys.{name}" for name in instep.keys.__all__} if "instep.keys" in shown else set()
    return {re.sub(r"\.(drive|pieces)\.(?=\w)", ".", name) for name in shown}  # a module and a function of the same name


def errors_and_warnings() -> list[str]:
    found = vars(instep.errors).items()
    return [name for name, value in found if isinstance(value, type) and issubclass(value, BaseException)]


PUBLIC: dict[str, Any] = {
    **{f"instep.{name}": getattr(instep, name) for name in instep.__all__},
    **{f"instep.data.{name}": getattr(instep.data, name) for name in instep.data.__all__},
    **{f"instep.schedules.{name}": getattr(instep.schedules, name) for name in instep.schedules.__all__},
    **{f"instep.keys.{name}": getattr(instep.keys, name) for name in instep.keys.__all__},
}


def test_every_public_name_is_in_the_reference() -> None:
    wanted = {name for name, value in PUBLIC.items() if not isinstance(value, ModuleType)}
    wanted |= {f"instep.errors.{name}" for name in errors_and_warnings()}
    shown = documented() | ({"instep.schedules.OneCycle"} if "instep.OneCycle" in documented() else set())
    assert sorted(wanted - shown) == []
    others = {"instep.keys", "instep.errors", "instep.sklearn.Classifier", "instep.sklearn.Regressor"}
    assert sorted(shown - wanted) == sorted(others)


# What a function returns; its example shows it.
RETURNED = {"instep.Replay": "instep.replay", "instep.SweepResult": "instep.sweep", "instep.Proof": "instep.prove"}


def test_every_public_name_has_an_example_that_runs() -> None:
    """test_doctests.py runs them."""
    shown = {name: PUBLIC[RETURNED.get(name, name)] for name in PUBLIC}
    told: list[tuple[str, Any]] = [
        (name, value) for name, value in shown.items() if inspect.isclass(value) or inspect.isroutine(value)
    ]
    told += [("instep.keys", instep.keys), ("instep.errors", instep.errors)]
    assert len(told) > 60
    assert not complaints(assert_has_example, told)


def assert_has_example(value: Any) -> None:
    assert ">>> " in (value.__doc__ or ""), "add one to its docstring"


def test_the_page_of_the_command_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = tool("command_reference")
    monkeypatch.setenv("COLUMNS", str(reference.COLUMNS))
    monkeypatch.setenv("NO_COLOR", "1")
    assert reference.PAGE.read_text(encoding="utf-8") == reference.render(), "make command-reference writes it anew"
