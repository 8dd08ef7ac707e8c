"""The figures of the house: how the source is laid out, counted. `python tools/figures.py` prints a table.

A plain update and a resume are really run, under a profiler that notes which functions of Instep are called.
"""

import ast
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent / "src" / "instep"


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def top_level_entries() -> int:
    return len([path for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]) - 2


def constructor(tree: ast.Module) -> ast.FunctionDef:
    trainer = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
    return next(node for node in trainer.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")


def assigned_attributes(tree: ast.Module) -> int:
    targets = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return len(targets)


def world_questions(sources: dict[Path, ast.Module]) -> int:
    """Lines that ask whether there is a world at all."""
    return sum(
        1
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if "doctor" not in path.parts and ("world is None" in line or "world is not None" in line or "_spread is" in line)
    )


def shared_class_names(sources: dict[Path, ast.Module]) -> list[str]:
    homes = Counter(
        name
        for path, tree in sources.items()
        if "doctor" not in path.parts and path.parent.name != "cli"  # each command has an `Own`, by rule
        for name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    )
    return sorted(name for name, count in homes.items() if count > 1)


def modules_behind(name: str) -> int:
    code = f"import sys\nfrom instep import {name}\nprint(len([m for m in sys.modules if m.startswith('instep.')]))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def called(do: Callable[[], object]) -> tuple[int, int]:
    """How many functions of Instep, in how many files, are called."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return len(seen), len({file for file, _ in seen})


def update_and_resume() -> tuple[tuple[int, int], tuple[int, int]]:
    import torch

    from instep import Trainer

    def trainer(folder: Path | None) -> Trainer:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        return Trainer(
            model,
            loss=torch.nn.functional.cross_entropy,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            train=(torch.randn(64, 4), torch.randint(3, (64,))),
            epochs=2,
            batch_size=8,
            folder=folder,
            progress=False,
        )

    updates = trainer(None).updates()
    next(updates)
    update = called(lambda: next(updates))
    with tempfile.TemporaryDirectory() as kept:
        for one in trainer(Path(kept)).updates():
            if one.step == 3:
                break
        resumed = trainer(Path(kept))
        resume = called(resumed.run.session()._resume)
    return update, resume


def main() -> None:
    sources = trees()
    face = sources[ROOT / "trainer.py"]
    init = constructor(face)
    update, resume = update_and_resume()
    rows = [
        ("top-level entries", top_level_entries()),
        ("lines of trainer.py", len((ROOT / "trainer.py").read_text(encoding="utf-8").splitlines())),
        ("lines of its constructor", (init.end_lineno or 0) - init.lineno + 1),
        ("arguments of Trainer", len(init.args.args) + len(init.args.kwonlyargs) - 1),
        ("attributes assigned in Trainer", assigned_attributes(face)),
        ("lines that ask whether there is a world", world_questions(sources)),
        ("a plain update: functions / files", f"{update[0]} / {update[1]}"),
        ("a resume: functions / files", f"{resume[0]} / {resume[1]}"),
        ("modules behind UpdateCycle", modules_behind("UpdateCycle")),
        ("class names in two or more files", len(shared_class_names(sources))),
        ("Python lines in src", sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources)),
    ]
    for name, value in rows:
        print(f"{name:42}{value!s:>12}")
    print(f"\nclass names in two or more files: {', '.join(shared_class_names(sources))}")


if __name__ == "__main__":
    main()
