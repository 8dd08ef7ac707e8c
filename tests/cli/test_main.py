"""Finding the command: help, version, and what is said to a slip."""

import subprocess
import sys

import pytest

from cli.said import Instep
from instep import __version__
from instep.cli import COMMANDS


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_lists_the_commands(instep: Instep, arguments: tuple[str, ...]) -> None:
    said = instep(*arguments)
    assert said.code == 0
    assert "usage: instep COMMAND" in said.out
    for name, line in COMMANDS.items():
        assert f"  {name:<12}{line}\n" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_own_help(instep: Instep, name: str) -> None:
    said = instep(name, "--help")
    assert said.code == 0
    assert said.out.startswith(f"usage: instep {name}")
    assert said.err == ""


@pytest.mark.parametrize("name", ["train", "find-lr", "find-batch", "preview", "graph"])
def test_the_help_of_a_command_says_what_it_does_and_that_it_takes_a_file(instep: Instep, name: str) -> None:
    said = instep(name, "--help").out
    assert said.startswith(f"usage: instep {name} [FILE.py[:build]] [-h] [OPTIONS]")
    assert f"{COMMANDS[name].capitalize()}." in said
    assert "Without a FILE, it is the built-in example:" in said


def test_version(instep: Instep) -> None:
    assert instep("--version").out == f"instep {__version__}\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trian", "no command 'trian'; did you mean 'train'? See instep --help."),
        ("xyz", f"no command 'xyz'; there are {', '.join(COMMANDS)}. See instep --help."),
        ("my.py", "'my.py' is no command; to train a file: instep train my.py"),
    ],
)
def test_an_unknown_command(instep: Instep, name: str, words: str) -> None:
    said = instep(name)
    assert (said.code, said.out, said.err) == (2, "", f"instep: {words}\n")


def test_help_and_slips_import_nothing_heavy() -> None:
    """One process for both: 50 ms of Python, where torch alone takes 1,500."""
    code = (
        "import sys, time; began = time.process_time(); import instep.cli\n"
        "codes = instep.cli.main(['--help']), instep.cli.main(['trian'])\n"
        "print(codes, [m for m in ('torch', 'numpy', 'tyro', 'rich') if m in sys.modules], time.process_time() - began < 0.2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "(0, 2) [] True"


def test_python_m_is_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "instep", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"instep {__version__}\n"
