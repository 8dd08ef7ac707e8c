"""HTML: a document as one file. Scripts and styles are named by their hash, so that the page runs these and no others."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

MARK = "<!doctype html>\n<!-- made by instep report -->\n"  # how a file begins that may be replaced


def page(document: Mapping[str, Any]) -> str:
    """The page, ASCII throughout but for what the style sheet has."""
    library, script = _read("vendor/uPlot.iife.min.js"), _read("charts.js") + _read("page.js")
    style = _read("vendor/uPlot.min.css") + _read("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    names = ", ".join(run["name"] for run in document["runs"])
    return MARK + Template(_read("page.html")).substitute(
        policy=policy,
        title=html.escape(names.encode("utf-8", "replace").decode()),
        style=style,
        library=library,
        script=script,
        document=embedded(document),
    )


def embedded(document: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element: nothing in it ends one or opens a comment."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (files("instep.report.page") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
