"""Checks a built site: every link leads to a page and an anchor that are there, and nothing is asked of another host.

python tools/check_site.py site
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; a link to another host is the reader's own choice.
FETCHED = {("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src"), ("link", "href"), ("object", "data")}
HARMLESS = {"canonical", "alternate", "prev", "next", "edit"}  # links of the head that are not fetched


@dataclass
class Page(HTMLParser):
    """What a page has and asks for."""

    anchors: set[str] = field(default_factory=lambda: {""})
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name, value in found.items():
            if (tag, name) in FETCHED and not (tag == "link" and found.get("rel") in HARMLESS):
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def check(site: Path) -> list[str]:
    """What is wrong, a line each; nothing where all is well."""
    pages: dict[Path, Page] = {}
    for path in sorted(site.rglob("*.html")):
        page = pages[path.resolve()] = Page()
        page.feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, page in pages.items():
        shown = path.relative_to(site.resolve())
        wrong += [f"{shown}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        for url in (*page.links, *page.fetched):
            if reason := _why_dead(url, path, pages):
                wrong.append(f"{shown}: {url} {reason}")
    for path in sorted(site.rglob("*.css")):
        if "url(http" in path.read_text(encoding="utf-8").replace('"', "").replace("'", ""):
            wrong.append(f"{path.relative_to(site)}: fetches from another host")
    return wrong


def _why_dead(url: str, path: Path, pages: dict[Path, Page]) -> str:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return ""
    if path.name == "404.html" and parts.path.startswith("/"):  # served under any address, so its links begin at the root
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "leads to no file"
    if target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "leads to no anchor of that page"
    return ""


if __name__ == "__main__":
    complaints = check(Path(sys.argv[1]))
    print("\n".join(complaints) or f"{len(list(Path(sys.argv[1]).rglob('*.html')))} pages, every link leads somewhere")
    sys.exit(bool(complaints))
