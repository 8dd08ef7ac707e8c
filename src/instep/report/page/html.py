"""HTML: a document as one file. Scripts and styles are named by their hash, so that the page runs these and no others."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

_CONNECT = "; connect-src 'self'"
MARK = "<!doctype html>\n<!-- made by instep report -->\n"  # how a file begins that may be replaced


def page(document: Mapping[str, Any], *, live: bool = False) -> str:
    """The page, ASCII but for what scripts and style sheet have; a live one asks its server for what is new."""
    names = ", ".join(run["name"] for run in document["runs"])
    scripts = ("dom.js", "elements.js", "charts.js", "page.js", *(("live.js",) if live else ()))
    return _fill(names, document, read_asset("vendor/uPlot.iife.min.js"), scripts, live=live)


def list_page(document: Mapping[str, Any]) -> str:
    """The list of runs that a server has."""
    return _fill("Runs", document, "", ("dom.js", "elements.js", "list.js"), live=True)


def policy_of(text: str) -> str:
    """The content security policy that a page has."""
    found = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    return found[1]


def _fill(title: str, document: Mapping[str, Any], library: str, names: Sequence[str], *, live: bool) -> str:
    script = "".join(map(read_asset, names))
    style = read_asset("vendor/uPlot.min.css") + read_asset("page.css")
    return MARK + fill_template(title, document, library=library, script=script, style=style, skip="charts", live=live)


def fill_template(
    title: str, document: Mapping[str, Any], *, script: str, style: str, skip: str, library: str = "", live: bool = False
) -> str:
    """A page that runs these scripts and no others, and asks for nothing; a live one may ask its server.

    `skip` is the id of the part that a reader with a keyboard can go to at once.
    """
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'{_CONNECT if live else ''}"
    )
    return Template(read_asset("page.html")).substitute(
        skip=skip,
        policy=policy,
        title=html.escape(title.encode("utf-8", "replace").decode()),
        style=style,
        library=library,
        script=script,
        document=embedded(document),
    )


def embedded(document: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element: nothing in it ends one or opens a comment."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def read_asset(name: str) -> str:
    """The text of a file that stands beside this one."""
    return (files("instep.report.page") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
