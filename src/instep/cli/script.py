"""The file that the command trains: loaded as a module, with the function that builds the Trainer found in it."""

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from instep import keys
from instep.cli.border import WrongUse
from instep.errors import InstepError
from instep.trainer import Trainer


@dataclass(frozen=True)
class Script:
    """A file of the user's, loaded, and its function."""

    path: Path
    name: str  # of the function
    build: Callable[..., Any]
    title: str  # what its runs are called
    is_recipe: bool = False

    def __str__(self) -> str:
        return f"{self.name}() of {self.path}"

    def to_record(self, options: Sequence[str]) -> dict[str, Any]:
        """What `run.json` keeps of it, so that other commands can build the same Trainer; the recipe has no file."""
        file = None if self.is_recipe else str(self.path.resolve())
        return {"file": file, "function": self.name, "options": list(options)}


class FileLoader(SourceFileLoader):
    """Loads from the source always and leaves no `__pycache__` beside it; marks the modules that the command loaded."""

    def get_code(self, fullname: str) -> CodeType | None:
        return self.source_to_code(self.get_data(self.path), self.path)


def load(target: str) -> Script:
    """The function that `FILE.py` or `FILE.py:function` names, `build` where none is."""
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        file, name = target.removesuffix(":"), "build"
    path = Path(file)
    if not path.exists():
        raise WrongUse(_explain_missing_file(path))
    if path.is_dir() or path.suffix != ".py":
        raise WrongUse(
            f"{path} is {'a folder' if path.is_dir() else 'no Python file'}; name a file that ends in .py and has build() in it."
        )
    module = _load_module(path)
    build = getattr(module, name, None)
    if build is None:
        raise WrongUse(_explain_missing_function(name, module, path))
    if not callable(build):
        raise WrongUse(f"{name} in {path} is a {type(build).__name__}; it has to be a function that returns a Trainer.")
    return Script(path, name, build, path.stem if name == "build" else f"{path.stem}-{name}")


def recipe() -> Script:
    """The built-in recipe, as if it were a file of the user's."""
    from instep.cli.recipes import train_digits

    return Script(Path(train_digits.__file__), "build", train_digits.build, "digits", is_recipe=True)


def build_trainer(found: Script, hyper_parameters: Mapping[str, Any]) -> Trainer:
    """The Trainer that build gives under a key of the seed, with its hyper-parameters recorded."""
    seed = hyper_parameters.get("seed")
    keys.seed_all(keys.for_build(keys.check_seed(0 if seed is None else seed)))
    try:
        trainer = found.build(**hyper_parameters)
    except InstepError as error:
        raise WrongUse(str(error)) from error
    except Exception as error:
        raise WrongUse(f"{found} raised {type(error).__name__}.") from error
    if trainer is None:
        raise WrongUse(f"{found} returned nothing; it has to end with return Trainer(…).")
    if not isinstance(trainer, Trainer):
        raise WrongUse(f"{found} returned a {type(trainer).__name__}; it has to return an instep.Trainer.")
    trainer.run.hyper_parameters = dict(hyper_parameters)
    return trainer


def _load_module(path: Path) -> ModuleType:
    """The file as a module of its own name, so that what it defines can be pickled; its folder stands first on the path."""
    folder = str(path.resolve().parent)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    name = _free_name(path.stem.replace(".", "_"))
    loader = FileLoader(name, str(path.resolve()))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=loader.path))
    module.__file__ = loader.path
    sys.modules[name] = module
    keys.seed_all(keys.for_build(0))  # what the file draws while it loads is the same each time
    try:
        loader.exec_module(module)
    except SystemExit as stop:
        del sys.modules[name]
        raise WrongUse(
            f"{path} ended while it was loaded (exit {stop.code}); put what runs it as a script under "
            'if __name__ == "__main__": and leave build() outside.'
        ) from None
    except Exception as error:
        del sys.modules[name]
        raise WrongUse(f"{path} cannot be loaded: {_last_line(error)}") from error
    return module


def _last_line(error: Exception) -> str:
    """What went wrong, as the last line of its traceback has it; of an error of ours its words alone."""
    said = str(error) if isinstance(error, InstepError) else "".join(traceback.format_exception_only(error)).strip()
    last = (said or type(error).__name__).splitlines()[-1]
    return last if last.endswith(".") else f"{last}."


def _free_name(name: str) -> str:
    """The name itself, unless a module that is not of our loading has it: a user's queue.py must not replace Python's."""
    loaded = sys.modules.get(name)
    return name if loaded is None or isinstance(getattr(loaded, "__loader__", None), FileLoader) else f"{name}_py"


def _explain_missing_file(path: Path) -> str:
    if path.with_suffix(".py").exists():
        return f"{path} does not exist; did you mean {path.with_suffix('.py')}?"
    beside = [file.stem for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.stem, beside, n=1)
    hint = f"did you mean {path.with_name(close[0] + '.py')}?" if close else f"instep init {path} writes one to start from."
    return f"{path} does not exist; {hint}"


def _explain_missing_function(name: str, module: ModuleType, path: Path) -> str:
    functions = {
        found.__name__: found
        for found in vars(module).values()
        if inspect.isfunction(found) and found.__module__ == module.__name__
    }
    typed = [other for other, function in functions.items() if "Trainer" in str(function.__annotations__.get("return"))]
    close = difflib.get_close_matches(name, functions, n=3)
    likely = list(dict.fromkeys([*close, *typed])) or [other for other in functions if not other.startswith("_")]
    hint = "write def build(lr: float = 1e-3) -> Trainer: in it."
    if likely:
        known = ", ".join(f"{other}()" for other in likely[:5])
        hint = f"it has {known}. Name one: instep train {path}:{likely[0]}"
    return f"{path} has no {name}(); {hint}"
