"""The promises, measured on Instep and on what people would use instead: does another arrangement give the same weights?

Every library does the same small task in its own documented way, once in one arrangement and once in another. What is shown is
the relative difference of the weights: 0 is equal bit for bit. Where a library documents several ways, the best one counts.

    python -m benchmarks.promises [--library instep,skorch] [--write]

`make bench-promises ARGS=--write` makes the environment first, and writes docs/promises.md and the table of README.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks.peers import machine, names_of, versions
from benchmarks.promise.results import JSON, LIBRARIES, Results, details, measured_on, table, write_pages


def main() -> None:
    options = parse()
    if options.redraw:
        write_pages(json.loads(JSON.read_text(encoding="utf-8")))
        return
    results: Results = {"machine": machine(), "versions": versions(options.library), "libraries": {}}
    for library in options.library:
        print(f"{library} …", file=sys.stderr, flush=True)
        results["libraries"] |= measure(library)
    print("\n\n".join([measured_on(results), table(results), details(results)]))
    if options.write:
        JSON.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        write_pages(results)
    if failures := list(failed(results)):
        sys.exit("\n".join(["", "failed:", *failures]))


def parse() -> argparse.Namespace:
    known = dict.fromkeys(LIBRARIES)
    parser = argparse.ArgumentParser(description="The promises, on Instep and on other libraries.")
    parser.add_argument("--library", type=names_of(known), default=LIBRARIES, help=", ".join(known))
    parser.add_argument("--write", action="store_true", help="benchmarks/promises.json, docs/promises.md, the table of README")
    parser.add_argument("--redraw", action="store_true", help="the pages anew from benchmarks/promises.json, without measuring")
    options = parser.parse_args()
    if options.write and options.library != LIBRARIES:
        parser.error("--write needs all libraries; leave out --library.")
    return options


def measure(*libraries: str) -> dict[str, Any]:
    """In a process of its own, which imports no other library."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.promise.measure", *libraries]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: found for line in done.stdout.splitlines() for name, found in json.loads(line).items()}


def failed(results: Results) -> list[str]:
    return [
        f"  {library}, {promise}: {way['failed']}"
        for library, ways in results["libraries"].items()
        for promise, found in ways.items()
        for way in found
        if "failed" in way
    ]


if __name__ == "__main__":
    main()
