"""`instep doctor` where no script runs: help, list, explain, wrong use."""

import subprocess
import sys
from pathlib import Path

import pytest

from instep.cli import main
from instep.cli.doctor import parse
from instep.doctor.catalogue import CATALOGUE, FAMILIES, SECTIONS


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_list_shows_every_id(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "--list")
    assert code == 0
    assert {line.split()[1] for line in out.splitlines() if line.startswith("  ")} == set(CATALOGUE)
    assert set(FAMILIES) == {entry.family for entry in CATALOGUE.values()}


def test_explain_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "--explain", "missing-zero-grad")
    assert code == 0
    assert "## Why it matters" in out
    code, _, err = said(capsys, "--explain", "missing-zerograd")
    assert code == 2
    assert "did you mean missing-zero-grad?" in err


def test_every_id_has_a_page_with_its_sections() -> None:
    heads = {
        id: [line.removeprefix("## ").strip() for line in entry.page.splitlines() if line.startswith("## ")]
        for id, entry in CATALOGUE.items()
    }
    assert {id: found for id, found in heads.items() if found != list(SECTIONS)} == {}


def test_the_docs_have_a_place_for_every_link() -> None:
    docs = Path(__file__).parent.parent.parent
    for entry in CATALOGUE.values():
        file, _, anchor = entry.link.partition("#")
        assert f"\n#### {anchor}\n{entry.severity}: {entry.title}." in (docs / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "instep doctor needs a script"),
        (("nowhere.py",), "there is no file nowhere.py"),
        (("--fast", "a.py"), "instep doctor has no option --fast; options of the script stand behind it"),
        (("--json",), "--json needs a value"),
        (("-m",), "-m needs the name of a module"),
        (("--ignore", "no-sead", __file__), "did you mean no-seed?"),
        (("--fail-on", "hint", __file__), "fail-on is 'hint'"),
        (("--json", "nowhere/found.json", __file__), "there is no folder nowhere"),
    ],
)
def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, _, err = said(capsys, *arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_what_follows_the_script_is_its_own() -> None:
    given = parse(["--ignore=no-seed", "--ignore", "non-finite", "train.py", "--json", "x", "--strict"])
    assert given.target == "train.py"
    assert given.arguments == ["--json", "x", "--strict"]
    assert given.values == {"--ignore": ["no-seed", "non-finite"]}
    assert not given.flags
    given = parse(["--strict", "-m", "pkg.train", "-m", "x"])
    assert (given.target, given.module, given.arguments) == ("pkg.train", True, ["-m", "x"])


def test_teaching_leaves_torch_alone(tmp_path: Path) -> None:
    teach = "main(['doctor', '--list']); main(['doctor', '--explain', 'no-seed'])"
    code = f"import sys; from instep.cli import main; {teach}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
