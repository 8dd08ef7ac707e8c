"""`Trainer(…, doctor=True)`: what one can still do wrong with Instep is named as in a plain script, right runs are left alone.

The scripts are pairs, as those of frameworks; each prints what `findings.json` of its run holds.
"""

import ast
import os
from pathlib import Path

from doctor.casebook import Examination
from doctor.pairs import Pair, pairs
from programs import Programs


def test_mistakes_with_the_trainer(tmp_path: Path, programs: Programs) -> None:
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    cases = [(pair, pair.write(tmp_path, kind)) for pair in pairs("instep") for kind in ("wrong", "right")]
    modules = ["instep.trainer", "instep.doctor.watcher"]
    with Examination(jobs=jobs, modules=modules, programs=programs) as examination:
        examination.send([script for _, script in cases], watched=False)
        answers = [(pair, script, examination.answer(script, watched=False)) for pair, script in cases]
    assert [answer["error"] for _, _, answer in answers] == [""] * 16
    wrong = [line for pair, script, answer in answers for line in complaints(pair, script, answer["out"])]
    assert not wrong, "\n".join(wrong)


def complaints(pair: Pair, script: Path, out: str) -> list[str]:
    """Where the findings of a run are others than they should be."""
    found = [(id, where) for id, severity, where in ast.literal_eval(out.splitlines()[-1]) if severity != "hint"]
    expected = [(pair.id, f"{script}:{pair.found}")] if script.stem.endswith("_wrong") else []
    return [] if found == expected else [f"{script.stem}: found {found}, expected {expected}"]
