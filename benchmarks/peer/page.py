"""The results as Markdown: tables, aims, reasons; and docs/performance.md with them between its two marks."""

from pathlib import Path

from benchmarks.peer.aims import is_other_library, judge, plural
from benchmarks.peer.chart import draw
from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.results import ENOUGH, Entry, Results
from benchmarks.peer.work import WORKS

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
CHART = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- results: written by make bench-peers -->\n", "<!-- end of the results -->"
TRAINING = ("mlp-64", "mlp-512", "cnn", "transformer", "workers", "processes")
AROUND = ("epochs", "start", "resume-early", "resume", "checkpoint")


def write_page(results: Results) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(
        f"{before}{BEGIN}\n![Speed beside the plain loop]({CHART.name})\n\n{show(results)}\n{END}{after}", encoding="utf-8"
    )
    CHART.write_text(draw(results), encoding="utf-8")


def show(results: Results) -> str:
    return "\n\n".join(part for part in (measured_on(results), *tables(results), aims(results), reasons(results)) if part)


def measured_on(results: Results) -> str:
    machine = results.machine
    on = f"{machine['cores']} cores ({machine['system']}), Python {machine['python']}"
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    rounds = {name: len(results.entry(name, work.threads[0], "plain").train_s) for name, work in WORKS.items()}
    told = ", ".join(f"{count} of `{name}`" for name, count in rounds.items() if count)
    return f"Measured on {on}: {versions}. Rounds: {told}.{paired(results)}"


def paired(results: Results) -> str:
    """How many pairs the aims go by."""
    said = []
    for work, rows in results.pairs.items():
        counts = {name: len(pair["train_s"]) for row in rows.values() for name, pair in row.items()}
        beside = [f"{count} with {CONTESTANTS[name].label}" for name, count in counts.items() if count >= ENOUGH]
        said += [f"`{work}` {', '.join(beside)}"] if beside else []
    return f" Pairs a row: {'; '.join(said)}." if said else ""


def tables(results: Results) -> list[str]:
    found = []
    for threads in (1, 2):
        works = [name for name in TRAINING if results.entries.get(name, {}).get(str(threads))]
        if works:
            head = f"### Training, {plural(threads)}\n\nMilliseconds: median (quartiles), and × as fast as the plain loop."
            found.append(f"{head} The fastest library is bold.\n\n{table(results, works, threads)}")
    works = [name for name in AROUND if name in results.entries]
    if works:
        head = "### Around training\n\nMilliseconds: median (quartiles). The fastest library is bold."
        found.append(f"{head}\n\n{table(results, works)}")
    if any(name in results.entries for name in TRAINING):
        found.append(construction(results))
    return found


def table(results: Results, works: list[str], threads: int | None = None) -> str:
    columns = [(name, threads or WORKS[name].threads[0]) for name in works]
    lines = [f"| | {' | '.join(f'`{name}`' for name in works)} |", "| --- |" + " ---: |" * len(works)]
    for contestant, who in CONTESTANTS.items():
        entries = [results.entry(name, count, contestant) for name, count in columns]
        if any(entries):
            cells = [cell(results, name, count, contestant) for name, count in columns]
            lines.append(f"| {who.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(results: Results, work: str, threads: int, contestant: str) -> str:
    entry = results.entry(work, threads, contestant)
    if entry.failed:
        return "failed"
    if not entry:
        return "–"
    low, high = entry.quartiles()
    text = f"{ms(entry.median())} ({ms(low)}–{ms(high)})"
    speed = results.speed(work, threads, contestant, "plain")
    if work in TRAINING and speed is not None:
        text += f" {speed:.2f} ×"
    return f"**{text}**" if contestant == fastest_library(results.entries[work][str(threads)]) else text


def fastest_library(row: dict[str, Entry]) -> str | None:
    ready = {name: one for name, one in row.items() if one and (name == "instep" or is_other_library(name))}
    return min(ready, key=lambda name: ready[name].median(), default=None)


def construction(results: Results) -> str:
    """What is not in the times above: making trainer, optimizer and loader; the processor time of two processes; the weights."""
    lines = [
        "| | construction, ms | `processes`, processor, ms | weights, beside the plain loop's |",
        "| --- | ---: | ---: | --- |",
    ]
    for contestant, who in CONTESTANTS.items():
        entries = {name: results.entry(name, WORKS[name].threads[0], contestant) for name in TRAINING if name in results.entries}
        done = {name: entry for name, entry in entries.items() if entry}
        if done:
            first = done.get("mlp-64") or next(iter(done.values()))
            processor = ms(done["processes"].median("processor_s")) if "processes" in done else "–"
            lines.append(f"| {who.label} | {ms(first.median('construct_s'))} | {processor} | {kinds_of_weights(done)} |")
    return "### Construction, and what came out\n\n" + "\n".join(lines)


def kinds_of_weights(done: dict[str, Entry]) -> str:
    """How the weights compare with the plain loop's, and in which works where that differs."""
    kinds: dict[str, list[str]] = {}
    for name, entry in done.items():
        kinds.setdefault(entry.weights or "not compared", []).append(name)
    if len(kinds) == 1:
        return next(iter(kinds))
    return "; ".join(f"{kind} ({', '.join(names)})" for kind, names in kinds.items())


def aims(results: Results) -> str:
    judged = judge(results)
    if not judged:
        return ""
    lines = ["| aim | measured | |", "| --- | ---: | --- |"]
    lines += [f"| {aim.text} | {aim.measured} | {'met' if aim.met else '**not met**'} |" for aim in judged]
    met = sum(aim.met for aim in judged)
    return f"### Aims\n\n{met} of {len(judged)} are met.\n\n" + "\n".join(lines)


def reasons(results: Results) -> str:
    """Why a place in the tables is empty."""
    said: dict[tuple[str, str], list[str]] = {}
    for work, rows in results.entries.items():
        for row in rows.values():
            for name, entry in row.items():
                text = entry.reason or (f"failed: {entry.failed}" if entry.failed else None)
                works = said.setdefault((name, text), []) if text else []
                if work not in works:
                    works.append(work)
    lines = [
        f"- {CONTESTANTS[name].label}, {', '.join(f'`{w}`' for w in works)}: {text}." for (name, text), works in said.items()
    ]
    return "### Empty places\n\n" + "\n".join(lines) if lines else ""


def ms(seconds: float) -> str:
    """Milliseconds with three digits."""
    value = seconds * 1e3
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"
