"""The commit that a script is at, for the record. Read from the files of git: starting git takes 8 ms, reading takes 0.1."""

import os
import re
import subprocess
from pathlib import Path

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_STEPS = 5  # from HEAD over names of names to a hash; git's own limit


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out where `folder` is; None outside of git, and where nothing is committed yet."""
    if "GIT_DIR" in os.environ:
        return _ask_git(folder)
    found = next((at / ".git" for at in (folder, *folder.parents) if (at / ".git").exists()), None)
    if found is None:
        return None
    try:
        return _resolve(_git_folder(found)) or _ask_git(folder)
    except (OSError, ValueError):  # a store that is not one of files
        return _ask_git(folder)


def _git_folder(found: Path) -> Path:
    """`.git`, or what it names: that of a worktree or a submodule is a file."""
    if found.is_dir():
        return found
    return found.parent / found.read_text(encoding="utf-8").removeprefix("gitdir:").strip()


def _resolve(folder: Path) -> str | None:
    """What HEAD says, by the names of branches; those of a worktree are in the folder that it shares with the others."""
    shared = folder / "commondir"
    common = folder / shared.read_text(encoding="utf-8").strip() if shared.exists() else folder
    said = (folder / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(_MOST_STEPS):
        if _HASH.fullmatch(said):
            return said
        name = said.removeprefix("ref:").strip()
        places = [place for place in (folder / name, common / name) if place.is_file()]
        said = places[0].read_text(encoding="utf-8").strip() if places else _packed(common, name)
    return None


def _packed(common: Path, name: str) -> str:
    """The hash of a branch that has no file of its own; "" where there is none."""
    packed = common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((line[: -len(name)].strip() for line in lines if line.endswith(f" {name}")), "")


def _ask_git(folder: Path) -> str | None:
    try:
        command = ["git", "rev-parse", "--verify", "HEAD"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
