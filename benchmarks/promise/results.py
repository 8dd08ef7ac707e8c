"""What was measured, and the tables that are made of it: for the terminal, for docs/promises.md, and a short one for README."""

from pathlib import Path
from typing import Any

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.promise.task import PROMISES

ROOT = Path(__file__).parents[2]
JSON = ROOT / "benchmarks" / "promises.json"
PAGE, README = ROOT / "docs" / "promises.md", ROOT / "README.md"
BEGIN, END = "<!-- measured by make bench-promises -->\n", "<!-- end of the measured part -->"
# Instep first, then the loop that everybody knows; the best loop by hand and the defaults of Instep have nothing to add here.
LIBRARIES = ["instep", *(name for name in CONTESTANTS if name not in ("instep", "instep-defaults", "hand"))]
TO_ROUNDING = 1e-5  # of weights in float32; what is wrong comes to 1e-4 and more
Results = dict[str, Any]


def write_pages(results: Results) -> None:
    write_between(PAGE, f"{measured_on(results)}\n\n{table(results)}\n\n{details(results)}\n")
    write_between(README, f"{table(results)}\n")


def write_between(path: Path, part: str) -> None:
    """What stands between the two marks of a page."""
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text.split(BEGIN)[0]}{BEGIN}\n{part}\n{END}{text.split(END)[1]}", encoding="utf-8")


def read_between(path: Path) -> str:
    return path.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip("\n")


def best(ways: list[dict[str, Any]]) -> dict[str, Any]:
    """The way that comes nearest to the promise: a library is shown at its best."""
    return min(ways, key=lambda way: way.get("difference", float("inf")))


def word(way: dict[str, Any]) -> str:
    """0, rounding, or how far the weights are apart."""
    if "failed" in way:
        return "failed"
    apart = float(way["difference"])
    if apart == 0.0:
        return "**0**"
    mantissa, exponent = f"{apart:.0e}".split("e")
    short = f"{mantissa}e{int(exponent)}"
    return f"**{short}**" if apart <= TO_ROUNDING else short


def cell(way: dict[str, Any]) -> str:
    """With a mark where a resumed run began the interrupted epoch again."""
    return word(way) + ("¹" if way.get("micro_batches", 0) >= PROMISES["resume"].one.micro_batches else "")


def table(results: Results) -> str:
    lines = [f"| | {' | '.join(PROMISES)} |", "| --- |" + " ---: |" * len(PROMISES)]
    for library, ways in results["libraries"].items():
        lines.append(f"| {CONTESTANTS[library].label} | {' | '.join(cell(best(ways[name])) for name in PROMISES)} |")
    return "\n".join(lines)


def measured_on(results: Results) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"Measured on {machine['system']}, Python {machine['python']}: {versions}."


def details(results: Results) -> str:
    """How each library was asked, way by way."""
    parts = []
    for name in PROMISES:
        lines = ["| | how | difference |", "| --- | --- | ---: |"]
        for library, ways in results["libraries"].items():
            for way in ways[name]:
                lines.append(f"| {CONTESTANTS[library].label} | {way['how']}{said_more(way)} | {word(way)} |")
        parts.append(
            f"#### {name.capitalize()}\n\n{PROMISES[name].title[0].upper()}{PROMISES[name].title[1:]}.\n\n" + "\n".join(lines)
        )
    return "\n\n".join(parts)


def said_more(way: dict[str, Any]) -> str:
    if "failed" in way:
        return f" ({way['failed']})"
    if "micro_batches" in way:
        return f" ({way['micro_batches']} batches after the kill)"
    return ""
