"""The page of a sweep: its best trial, the parameters of all as parallel coordinates, what matters, and a table."""

from collections.abc import Mapping
from typing import Any

from instep.report.page.html import MARK, fill_template, read_asset


def sweep_page(document: Mapping[str, Any]) -> str:
    """The page; it needs nothing else. Pictures in the document are SVG of the drawing room, the rest is text."""
    script = "".join(map(read_asset, ("dom.js", "elements.js", "sweep.js")))
    style = read_asset("page.css") + read_asset("sweep.css")
    return MARK + fill_template(f"{document['name']} · sweep", document, script=script, style=style, skip="trials")
