"""One process with torch imported that forks a child for each remedy: a remedy changes torch for good.

    python tests/doctor/remedied.py FOLDER

runs the snippets of `test_remedies.py` that lie in FOLDER, each `ID.json` with its `code` and the finding, and leaves
`ID.out.json`: how often the fix acted, and the variable `seen` of the snippet; in `ID.as_it_is.json`, without the fix.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import torch

from instep.doctor.remedies import REMEDIES, Fix
from instep.doctor.sites import Locator


def run(path: Path, *, fixed: bool) -> None:
    told = json.loads(path.read_text())
    fix = Fix(told["id"], told["where"], told["evidence"], Locator(), told["measures_only"])
    right: list[float] = []
    fix.note = lambda value: right.append(value.item())
    if fixed:
        REMEDIES[fix.id].apply(fix)
    names: dict[str, object] = {"__name__": "snippet"}
    torch.manual_seed(0)
    exec(compile(told["code"], str(path.with_suffix(".py").absolute()), "exec"), names)
    out = path.with_suffix(".out.json" if fixed else ".as_it_is.json")
    out.write_text(json.dumps({"count": fix.count, "seen": names["seen"], "right": right}))


def main() -> None:
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()  # imports what every snippet would import again
    for remedy in REMEDIES.values():
        importlib.import_module(f"instep.doctor.remedies.{remedy.function.partition(':')[0]}")
    os.chdir(sys.argv[1])
    for path in sorted(Path().glob("*.json")):
        for fixed in (True, False):
            if os.fork() == 0:
                try:
                    run(path, fixed=fixed)
                finally:
                    os._exit(0)
            os.wait()


if __name__ == "__main__":
    main()
