"""What happens inside the second run of `--confirm`: fixes and curves are installed, and the folder itself is protected."""

import atexit
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instep.doctor.curves import Curves, wrap
from instep.doctor.launch import SECOND_RUN
from instep.doctor.remedies import REMEDIES, Fix
from instep.doctor.sites import Locator

DONE, START = ".fixes.json", "start.json"


def treat(folder: Path) -> None:
    """Right after torch was imported: install the remedies, and record the curves."""
    told = json.loads((folder / SECOND_RUN).read_text())
    locator = Locator(tuple(root + os.sep for root in told["roots"] if root))
    protect(told["protected"])
    restore_start(folder)
    curves = Curves(locator, evaluations=True)
    fixes = [
        Fix(
            one["id"],
            one["where"],
            one["evidence"],
            locator,
            told["measures_only"],
            curves.note_right_loss,
            places=tuple(one["places"]),
        )
        for one in told["remedies"]
    ]
    for fix in fixes:
        REMEDIES[fix.id].apply(fix)
    curves.install()  # around the fixes: they are to see the losses that the script has
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process:
            counts: dict[str, list[int]] = {}  # how often each acted, and did not since it was another line
            for fix in fixes:
                acted, elsewhere = counts.get(fix.id, [0, 0])
                counts[fix.id] = [acted + fix.count, elsewhere + fix.elsewhere]
            (folder / f"{process}{DONE}").write_text(json.dumps(counts))
            curves.save(folder)

    atexit.register(end)


def protect(folders: Sequence[str]) -> None:
    """Refuse to write below these folders: what the script names by a whole path is not in the copy."""
    if not folders:
        return
    own = tuple(os.path.realpath(folder) + os.sep for folder in folders)

    def refuse(path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)) and os.path.realpath(os.fsdecode(path)).startswith(own):
            raise PermissionError(f"--confirm does not write to {os.fsdecode(path)}, which is not in its copy of the folder")

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
                refuse(path)
        elif event in ("os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree"):
            for path in args[:2]:
                refuse(path)

    sys.addaudithook(heard)
    import torch

    def around_save(original: Any, *args: Any, **kwargs: Any) -> Any:  # torch writes by C++, which no hook hears
        refuse(args[1] if len(args) > 1 else kwargs.get("f"))
        return original(*args, **kwargs)

    wrap(torch, "save", around_save)


def keep_start(folder: Path) -> None:
    """Note the state of the random numbers when torch was imported, so that a second run can begin with the same."""
    import torch

    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy is not None else None
    saved = {
        "torch": torch.initial_seed(),
        "python": random.getstate(),
        "numpy": None if state is None else [state[0], state[1].tolist(), *state[2:]],
    }
    (folder / START).write_text(json.dumps(saved))


def restore_start(folder: Path) -> None:
    """Begin with the random numbers of the first run; scripts that set a seed set it later."""
    import torch

    path = folder / START
    try:
        os.close(os.open(folder / f"{START}.used", os.O_CREAT | os.O_EXCL))
    except OSError:  # a process that the script started has its own, as in the first run
        return
    if not path.is_file():
        return
    saved = json.loads(path.read_text())
    torch.manual_seed(saved["torch"])
    version, state, gauss = saved["python"]
    random.setstate((version, tuple(state), gauss))
    numpy = sys.modules.get("numpy")
    if numpy is not None and saved["numpy"] is not None:
        numpy.random.set_state(tuple(saved["numpy"]))
