"""Gathers the pages of the site: `docs/` as it is, and whatever its pages link to elsewhere in the repository.

The pages are written for the repository, where a link leads to a file. Here each file that is linked gets a page (README, the
doctor's pages, examples, notebooks), and the links are turned to it. A link that leads nowhere is an error. Needs no package.

    python tools/site_pages.py build/pages
"""

import ast
import json
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
DOCS, EXAMPLES, FINDINGS = "docs/", "examples/", "src/instep/doctor/pages/"
ALWAYS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
FENCED = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\(|\b(?:src|srcset|href)=\")([^)\s\"]+)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/")


class DeadLink(Exception):
    """A link that leads to no file."""


def place_of(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    if path.startswith(FINDINGS):
        return f"doctor/{path.removeprefix(FINDINGS)}"
    if path == "examples/README.md":
        return "examples/index.md"
    if "/" not in path and path.endswith(".md"):
        return path.lower()
    return path if path.endswith((".md", ".png", ".svg")) else f"{path}.md"


def gather(folder: Path) -> dict[str, str]:
    """Write every page into this folder; returns place by file."""
    shutil.rmtree(folder, ignore_errors=True)
    first = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    waiting = [path.relative_to(ROOT).as_posix() for path in first] + [*ALWAYS, *_examples()]
    places: dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        if path in places:
            continue
        places[path] = place_of(path)
        target = folder / places[path]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not places[path].endswith(".md"):
            shutil.copyfile(ROOT / path, target)
            continue
        text, linked = turn_links(read_page(path), path)
        target.write_text(text, encoding="utf-8")
        waiting += linked
    index = folder / "examples/index.md"
    if not index.exists():
        index.write_text(_list_examples(), encoding="utf-8")
    return places


def read_page(path: str) -> str:
    """A file as Markdown: a program as a block of code, a notebook as its cells."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        # The words after the language are for the tests that run the block; here they would make it plain text.
        return re.sub(r"^( *```\w+) [\w ]+$", r"\1", text, flags=re.MULTILINE)
    if path.endswith(".ipynb"):
        return f"# {path}\n\n" + "\n\n".join(_cells(json.loads(text)))
    language = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".json": "json"}.get(Path(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{text.rstrip()}\n````\n"


def _cells(notebook: dict[str, list[dict[str, object]]]) -> list[str]:
    found = []
    for cell in notebook["cells"]:
        source = cell["source"]
        text = "".join(source) if isinstance(source, list) else str(source)
        found.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return found


def turn_links(text: str, path: str) -> tuple[str, list[str]]:
    """The page with its links turned to where their files are on the site, and these files."""
    linked: list[str] = []

    def turn(match: re.Match[str]) -> str:
        if ELSEWHERE.match(match[2]):
            return match[0]
        name, hash_, anchor = match[2].partition("#")
        target = _resolve(path, name)
        linked.append(target)
        return match[1] + os.path.relpath(place_of(target), PurePosixPath(place_of(path)).parent) + hash_ + anchor

    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [LINK.sub(turn, text[end : fence.start()]), fence[0]]
        end = fence.end()
    parts.append(LINK.sub(turn, text[end:]))
    return "".join(parts), [one for one in linked if one != "examples/README.md" or (ROOT / one).exists()]


def _resolve(path: str, name: str) -> str:
    target = os.path.normpath(PurePosixPath(path).parent / name)
    if (ROOT / target).is_dir():
        target = f"{target}/README.md"
    if not (ROOT / target).is_file() and target != "examples/README.md":
        raise DeadLink(f"{path} links to {name}, which is no file")
    return PurePosixPath(target).as_posix()


def _examples() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py"))


def _list_examples() -> str:
    lines = ["# Examples", "", "Small programs, one feature each. The test suite runs every one of them.", ""]
    for path in _examples():
        docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""
        lines.append(f"- [{path.removeprefix(EXAMPLES)}]({path.removeprefix(EXAMPLES)}.md): {docstring.partition(chr(10))[0]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        print(f"{len(gather(Path(sys.argv[1])))} pages and pictures in {sys.argv[1]}")
    except DeadLink as dead:
        sys.exit(str(dead))
