"""README and docs tell the truth: every block of Python runs; one marked `continued` goes on where the one before ended."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    found: list[str] = []
    for mark, code in re.findall(r"```python( continued)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        if mark:
            found[-1] += code
        else:
            found.append(code)
    return found


CODE = [pytest.param(page, code, id=f"{page.name}-{i}") for page in PAGES for i, code in enumerate(blocks(page))]


@pytest.mark.parametrize(("page", "code"), CODE)
def test_a_block_runs(page: Path, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, str(page), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\S+)", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (page.parent / link).exists(), link
