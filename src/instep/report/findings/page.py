"""The page of `instep doctor --html`: one file that opens from disk, runs no script and asks for nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from instep.drawing.chart import Chart
from instep.drawing.svg import draw
from instep.report.findings.evidence import draw_evidence
from instep.report.findings.source import read_excerpt
from instep.text import plural

MARK = "<!doctype html>\n<!-- made by instep doctor -->\n"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
LEVELS = ("error", "warning", "hint")
CHANGES = {"-": "gone", "+": "new"}

Finding = Mapping[str, Any]  # as the doctor's --json has it, with `title` and perhaps `known`


@dataclass(frozen=True)
class FindingsPage:
    """What stands on the page. `folder` is where the names of files are seen from; pages are Markdown, by id."""

    script: str
    findings: Sequence[Finding]
    steps: int
    folder: Path
    charts: Sequence[Chart] = ()
    explanations: Mapping[str, str] = field(default_factory=dict)
    confirmed: Sequence[Chart] = ()  # both runs of --confirm
    verdict: str = ""

    def text(self) -> str:
        """The whole file."""
        style = (files("instep.report.findings") / "findings.css").read_text(encoding="utf-8")
        title = escape(f"instep doctor: {self.script}")
        head = (
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{title}</title><style>{style}</style>'
        )
        parts = [self._header(), self._pictures(), *(self._card(place, one) for place, one in enumerate(self.findings))]
        return f'{MARK}<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'

    def _header(self) -> str:
        counts = [(level, sum(one["severity"] == level for one in self.findings)) for level in LEVELS]
        chips = "".join(f'<li class="{level}">{plural(count, level)}</li>' for level, count in counts if count)
        said = f"watched for {plural(self.steps, 'step')}"
        if not self.findings:
            said += ", and found nothing to say"
        rows = "".join(
            f'<li><a href="#finding-{place}">{escape(one["id"])}</a> {escape(one["title"])}</li>'
            for place, one in enumerate(self.findings)
        )
        contents = f'<nav aria-label="Findings"><ol>{rows}</ol></nav>' if len(self.findings) > 1 else ""
        return (
            f'<header><p class="over">instep doctor</p><h1>{escape(self.script)}</h1><p class="quiet">{said}</p>'
            f'<ul class="chips">{chips}</ul>{contents}</header>'
        )

    def _pictures(self) -> str:
        parts = [f"<figure>{draw(chart)}</figure>" for chart in self.charts]
        if self.verdict:
            parts.append(f"<h2>With the fix</h2><p>{escape(self.verdict)}</p>")
            parts += [f"<figure>{draw(chart)}</figure>" for chart in self.confirmed]
        return f"<section>{''.join(parts)}</section>" if parts else ""

    def _card(self, place: int, finding: Finding) -> str:
        known = '<span class="tag">in the baseline</span>' if finding.get("known") else ""
        since = finding.get("since_step")
        told = [finding.get("where") or "", "" if since is None else f"since step {since}", finding.get("process") or ""]
        return (
            f'<article id="finding-{place}" class="{finding["severity"]}">'
            f'<h2><span class="level">{finding["severity"]}</span> <code>{escape(finding["id"])}</code> {known}</h2>'
            f'<p class="title">{escape(finding["title"])}</p>'
            f'<p class="quiet">{escape(" · ".join(filter(None, told)))}</p>'
            f"{self._source(finding)}<p>{escape(finding['message'])}</p>{draw_evidence(finding['evidence'])}"
            f"<h3>Why it matters</h3><p>{mark_up(finding['why'], inline=True)}</p>"
            f'<h3>Fix</h3><pre class="fix">{_changes(finding["fix"])}</pre>{self._more(finding["id"])}</article>'
        )

    def _source(self, finding: Finding) -> str:
        excerpt = read_excerpt(finding.get("where"), self.folder)
        if excerpt is None:
            return ""
        rows = "".join(
            f'<span class="line{" marked" if marked else ""}"><span class="number">{number}</span>{escape(line) or " "}</span>'
            for number, line, marked in excerpt.numbered
        )
        return f'<pre class="source">{rows}</pre>'

    def _more(self, id: str) -> str:
        text = self.explanations.get(id, "").partition("\n## ")
        return f"<details><summary>More about {escape(id)}</summary>{mark_up('## ' + text[2])}</details>" if text[2] else ""


def _changes(fix: str) -> str:
    lines = (
        f'<span class="{CHANGES.get(line[:1], "same")}">{escape(line) or " "}</span>' for line in fix.strip("\n").splitlines()
    )
    return "\n".join(lines)


def mark_up(text: str, *, inline: bool = False) -> str:
    """Markdown as HTML; what looks like HTML in it is shown as text."""
    from markdown_it import MarkdownIt

    maker = MarkdownIt("commonmark", {"html": False})
    made: str = maker.renderInline(text) if inline else maker.render(text)
    return made


def piece(findings: Sequence[Finding], steps: int, folder: Path) -> str:
    """For a notebook, under a cell: no script, no style sheet, the page's own colours."""
    if not findings:
        said = f"nothing to say in {plural(steps, 'step')}" if steps else "nothing found, and no step was watched"
        return f"<div><p>instep doctor: {said}.</p></div>"
    return f"<div>{''.join(_folded(one, folder) for one in findings)}</div>"


def _folded(finding: Finding, folder: Path) -> str:
    colour = {"error": "#c0392b", "warning": "#b9770e", "hint": "#2874a6"}[finding["severity"]]
    excerpt = read_excerpt(finding.get("where"), folder)
    shown = "" if excerpt is None else "\n".join(f"{'>' if hit else ' '} {n:>3}  {line}" for n, line, hit in excerpt.numbered)
    block = 'style="margin: 0.4em 0; text-align: left; white-space: pre-wrap"'
    return (
        f'<details open style="border-left: 3px solid {colour}; padding-left: 0.8em; margin: 0.6em 0">'
        f'<summary><strong style="color: {colour}">{finding["severity"]}</strong> <code>{escape(finding["id"])}</code> '
        f"{escape(finding['title'])}</summary>"
        f"<p>{escape(finding['place'])}{escape(finding['message'])}</p>"
        f"{f'<pre {block}>{escape(shown)}</pre>' if shown else ''}<p>{mark_up(finding['why'], inline=True)}</p>"
        f"<pre {block}>{escape(finding['fix'].strip())}</pre></details>"
    )
