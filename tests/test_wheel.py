"""The wheel: it builds, holds the files that are no Python, and runs where nothing else of the repository is."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from instep import __version__

ROOT = Path(__file__).parent.parent


def python(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    """What a new process says; with `path`, its own packages are found there before all others."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    python("-m", "pip", *build, str(ROOT), cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_it_holds_what_is_no_python_too(wheel: Path) -> None:
    assert wheel.name == f"instep-{__version__}-py3-none-any.whl"
    held = set(zipfile.ZipFile(wheel).namelist())
    sources = ROOT / "src"
    expected = {
        path.relative_to(sources).as_posix()
        for path in (sources / "instep").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"instep/data/embedded/digits.npz", "instep/py.typed", "instep/cli/recipes/starter.py"} <= expected
    assert any(name.startswith("instep/doctor/pages/") for name in expected)
    assert expected == {name for name in held if name.startswith("instep/")}


@pytest.mark.slow
def test_it_runs_alone(wheel: Path, tmp_path: Path) -> None:
    installed, work = tmp_path / "installed", tmp_path / "work"
    work.mkdir()
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(installed))
    python("-m", "pip", *install, str(wheel), cwd=work)
    home = python("-c", "import instep; print(instep.__file__)", cwd=work, path=installed)
    assert Path(home.strip()).is_relative_to(installed)
    assert python("-m", "instep", "--version", cwd=work, path=installed) == f"instep {__version__}\n"
    assert "usage: instep COMMAND" in python("-m", "instep", "--help", cwd=work, path=installed)
    assert "zero_grad" in python("-m", "instep", "doctor", "--explain", "missing-zero-grad", cwd=work, path=installed)
    assert "--instep-doctor" in python("-m", "pytest", "--help", cwd=work, path=installed)  # found by pytest itself
    python("-m", "instep", "init", cwd=work, path=installed)
    said = python("-m", "instep", "train", "train.py", "--epochs", "1", "--no-progress", cwd=work, path=installed)
    assert "instep report runs/train" in said
