"""`instep init [PATH]`: writes a commented file to start from, which trains as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.border import WrongUse
from instep.cli.options import parse

# A real module, so that it is checked and tested like the others; read as text here.
STARTER = Path(__file__).parent / "recipes" / "starter.py"


@dataclass(frozen=True)
class InitOptions:
    """Write a commented file to start from; it trains as it is."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[PATH]")] = Path("train.py")
    """Where to write it; a file that exists is not overwritten."""


def run(arguments: Sequence[str]) -> int:
    """Write the file; returns the exit code."""
    path = parse(InitOptions, arguments, prog="instep init").path
    if path.is_dir():
        path = path / "train.py"
    if path.suffix != ".py":
        raise WrongUse(f"{path} would be no Python file; say instep init {path.with_suffix('.py')}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(STARTER.read_text(encoding="utf-8").replace("train.py", path.name))
    except FileExistsError:
        raise WrongUse(f"{path} is there already and is not overwritten; name another: instep init other.py") from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}.") from None
    print(f"wrote {path}; train it with: instep train {path}")
    return 0
