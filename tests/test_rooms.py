"""Data flows one way: a room imports only from those above it."""

import ast
import functools
from pathlib import Path

import instep

ROOT = Path(instep.__file__).parent
# From top to bottom. A room is a module or a folder of src/instep; inside a folder imports are free.
ROOMS = """
    errors text extras drawing records keys data schedules distributed optim loop checkpoint run report tuning proof integrations
    doctor plugins trainer sklearn cli
""".split()  # noqa: SIM905
# The front door looks at everything, and is said apart.
OUTSIDE = {"__init__", "__main__"}
# The doctor looks at strangers' scripts, and knows next to nothing of ours.
DOCTOR = {"doctor", "errors", "records", "text"}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


@functools.cache
def read(path: Path) -> tuple[set[str], set[str]]:
    """The rooms that a file imports from, and the methods that it calls. The trees themselves would be a lot to keep."""
    rooms: set[str] = set()
    calls: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.add(node.func.attr)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            names = [f"{node.module}.{alias.name}" if node.module == "instep" else node.module or "" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("instep.")}
    return rooms - {"__version__"}, calls


def imported_rooms(path: Path) -> set[str]:
    return read(path)[0]


SOURCES = sorted(ROOT.rglob("*.py"))


def test_a_room_imports_only_from_those_above_it() -> None:
    inside = [path for path in SOURCES if room_of(path) not in OUTSIDE]
    unknown = {room_of(path) for path in inside} - set(ROOMS)
    assert not unknown, f"{sorted(unknown)}: say in this test where a new room stands"
    assert not [told for path in inside for told in imports_from_below(path)]


def imports_from_below(path: Path) -> list[str]:
    above = ROOMS[: ROOMS.index(room_of(path)) + 1]
    return [f"{path.relative_to(ROOT)} imports {room}" for room in sorted(imported_rooms(path) - set(above))]


def test_the_doctor_knows_nobody() -> None:
    found = {str(path.relative_to(ROOT)): imported_rooms(path) - DOCTOR for path in SOURCES if room_of(path) == "doctor"}
    assert found
    assert not {name: rooms for name, rooms in found.items() if rooms}


def test_the_reader_of_imports_sees_them(tmp_path: Path) -> None:
    """A test that cannot fail is none: every way to import is found."""
    source = tmp_path / "a.py"
    lines = [
        "import instep.loop.update",
        "from instep import keys",
        "from instep.data.order import Order",
        "def f():",
        " import instep.cli",
    ]
    source.write_text("\n".join(lines))
    assert imported_rooms(source) == {"loop", "keys", "data", "cli"}


def test_backward_is_called_in_few_files() -> None:
    allowed = {ROOT / "loop" / "torch_calls.py", ROOT / "loop" / "update.py"}
    allowed |= {ROOT / "distributed" / f"{name}_turn.py" for name in ("chosen", "bucket", "shard")}
    allowed.add(ROOT / "tuning" / "plain_loop.py")  # the loop that a run is compared with
    for path in SOURCES:
        assert path in allowed or "backward" not in read(path)[1], path
