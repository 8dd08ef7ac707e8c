"""Show what the doctor says of scripts of the grammar: `python tests/doctor/try_grammar.py [MUTATION…] [--seeds 0:40]`.

Without a mutation the scripts are right; `all` stands for every mutation. `--write FOLDER` leaves the scripts there.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from doctor.casebook import Examination
from doctor.generated import complaints
from doctor.grammar import Script, write
from doctor.grammar.mutations import MUTATIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutations", nargs="*")
    parser.add_argument("--seeds", default="0:40")
    parser.add_argument("--write", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--watched", action="store_true", help="do not run them unwatched too")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    names = list(MUTATIONS) if given.mutations == ["all"] else given.mutations or [""]
    scripts = [write(seed, name) for name in names for seed in range(first, last)]
    with tempfile.TemporaryDirectory() as folder, Examination(jobs=given.jobs) as examination:
        show(scripts, Path(given.write or folder), examination, watched_only=given.watched)


def show(scripts: list[Script], folder: Path, examination: Examination, *, watched_only: bool) -> None:
    """Complaints about each, and how many there were."""
    folder.mkdir(exist_ok=True)
    paths = {script.name: folder / f"{script.name}.py" for script in scripts}
    for script in scripts:
        paths[script.name].write_text(script.source, encoding="utf-8")
    for path in paths.values():
        examination.send([path])
        examination.send([] if watched_only else [path], watched=False)
    clean: Counter[str] = Counter()
    for script in scripts:
        path = paths[script.name]
        answer = examination.answer(path)
        wrong = complaints(script, path, answer, answer if watched_only else examination.answer(path, watched=False))
        clean[script.plan.mutation] += not wrong
        print(*(f"{script.name}: {line}" for line in wrong), sep="\n", end="\n" if wrong else "", flush=True)
    for mutation, count in clean.items():
        whole = sum(script.plan.mutation == mutation for script in scripts)
        print(f"{mutation or 'right':<24}{count:>5} of {whole}")


if __name__ == "__main__":
    main()
