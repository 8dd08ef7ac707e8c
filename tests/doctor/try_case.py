"""Show what the doctor finds in scripts: `python tests/doctor/try_case.py FILE…`; a folder stands for the scripts in it.

`--score` prints the table of docs/doctor.md instead. Findings that the manifest expects are marked `ok`, others `!!`, missing
ones `--`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from doctor.casebook import Case, cases, complaints, examine


def score() -> str:
    """A table of all cases, by family: what was to be found and was, and scripts in which something was said that should not."""
    book = cases()
    answers = examine([case.script for case in book])
    rows = [
        "| family | wrong scripts | ids to find | found | correct scripts | with a false error or warning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    totals = [0, 0, 0, 0, 0]
    for family in sorted({case.script.parent.name for case in book}):
        counts = [0, 0, 0, 0, 0]
        for case in (case for case in book if case.script.parent.name == family):
            said = {f["id"] for f in answers[case.script]["findings"]}
            loud = {f["id"] for f in answers[case.script]["findings"] if f["severity"] != "hint"}
            wrong = bool(case.expected)
            news = (wrong, len(case.expected), len(case.expected & said), not wrong, not wrong and bool(loud))
            counts = [count + int(new) for count, new in zip(counts, news, strict=True)]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        rows.append(f"| {family} | {' | '.join(map(str, counts))} |")
    return "\n".join([*rows, f"| **all** | {' | '.join(map(str, totals))} |"])


def main(arguments: list[str]) -> None:
    if arguments == ["--score"]:
        print(score())
        return
    given = [Path(argument).resolve() for argument in arguments]
    scripts = [script for path in given for script in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    known = {case.script.resolve(): case for case in cases()}
    for script, answer in sorted(examine(scripts).items()):
        case = known.get(script, Case(script, frozenset(), frozenset()))
        print(f"\n{script.name}  ({answer.get('steps', 0)} steps, {answer.get('seconds', 0)} s)")
        for f in answer["findings"]:
            mark = "ok" if f["id"] in case.expected | case.hints else "!!"
            print(f"  {mark} {f['severity']:<7} {f['id']}  {f['where']}\n     {f['message']}\n     {f['evidence']}")
        for verdict, factors in answer["margins"].items():
            near = {id: round(factor, 2) for id, factor in factors.items() if factor < 10}
            print(f"     {verdict} by a factor of less than 10: {near}" if near else "", end="\n" if near else "")
        for line in complaints(case, answer):
            if not line.startswith("not expected"):
                print(f"  -- {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
