"""Where in the user's source something happens: the innermost frame that is neither torch's nor Instep's nor any library's."""

import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).resolve().parent.parent) + os.sep
_DOCTOR = str(Path(__file__).resolve().parent) + os.sep
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Locator:
    """Finds the user's line of the call that is going on.

    `roots` are folders that count as the user's whatever lies above them: that of a script inside an installed package.
    """

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        self._roots = roots
        # By the name that code has for its file: code itself takes long to hash. "" for everybody else's.
        self._users: dict[str, str] = {}
        self._homes: dict[str, str] = {}  # the same of folders
        self._said: dict[tuple[str, int], str] = {}

    def site(self, depth: int = 1) -> str | None:
        """`file:line` of the innermost frame of the user's, from `depth` callers up; None where there is none."""
        frame: FrameType | None = sys._getframe(depth)
        users = self._users
        while frame is not None:
            name = frame.f_code.co_filename
            file = users.get(name)
            if file is None:
                file = users[name] = self._owned(name)
            if file:
                return self.text(file, frame.f_lineno)
            frame = frame.f_back
        return None

    def lines(self, depth: int = 1, limit: int = 4) -> tuple[str, ...]:
        """The user's lines on the stack, the innermost first: they tell apart what goes through one helper."""
        found: list[str] = []
        frame: FrameType | None = sys._getframe(depth)
        while frame is not None and len(found) < limit:
            file = self._file(frame)
            if file:
                found.append(self.text(file, frame.f_lineno))
            frame = frame.f_back
        return tuple(found)

    def outer_sites(self, depth: int = 1) -> list[str]:
        """The user's lines further out that called a library which called the user back: `trainer.fit(…)` of a framework."""
        found: list[str] = []
        between = inside = False
        for frame in self.frames(depth):
            file = self._file(frame)
            if not file:
                between = inside
                continue
            if between:
                found.append(self.text(file, frame.f_lineno))
            between, inside = False, True
        return found

    def is_called_by_user(self) -> bool:
        """Whether the user's own code calls torch here, and no other library does so for it."""
        for frame in self.frames():
            if self._file(frame):
                return True
            name = frame.f_code.co_filename
            folder = _real_folder(os.path.dirname(name)) + os.sep
            if not name.startswith("<") and not folder.startswith(_DOCTOR) and not folder.startswith(_torch_folder()):
                return False
        return False

    def is_importing(self) -> bool:
        """Whether a library is being imported: what it does then is for itself."""
        for frame in self.frames():
            owned = bool(self._file(frame))
            if owned or frame.f_code.co_name == "<module>":
                return not owned
        return False

    def frames(self, depth: int = 1) -> Iterator[FrameType]:
        """Every frame of the stack from the innermost on, libraries included: to see who is calling."""
        frame: FrameType | None = sys._getframe(depth + 1)
        while frame is not None:
            yield frame
            frame = frame.f_back

    def text(self, file: str, line: int) -> str:
        """`file:line`, as findings say it."""
        place = (file, line)
        if place not in self._said:
            self._said[place] = f"{_relative(file)}:{line}"
        return self._said[place]

    def is_users(self, name: str) -> bool:
        """Whether a file is the user's own."""
        return bool(name) and bool(self._owned(name))

    def _file(self, frame: FrameType) -> str:
        """The file of the user's that a frame is in, "" for anybody else's."""
        name = frame.f_code.co_filename
        file = self._users.get(name)
        if file is None:
            file = self._users[name] = self._owned(name)
        return file

    def _owned(self, name: str) -> str:
        """The path of a file of the user's, "" for anybody else's."""
        if name.startswith("<ipython") or f"{os.sep}ipykernel_" in name:
            return name
        if name.startswith("<"):
            return ""
        try:
            folder, file = os.path.split(name if name.startswith(os.sep) else os.path.abspath(name))
        except OSError:  # the working folder was deleted
            return ""
        home = self._homes.get(folder)
        if home is None:
            home = self._homes[folder] = self._home(folder)
        return home + file if home else ""

    def _home(self, folder: str) -> str:
        """The path of a folder of the user's, "" for anybody else's."""
        path = _real_folder(folder).rstrip(os.sep) + os.sep
        if path.startswith(_OWN):
            return ""
        if any(path.startswith(root) for root in self._roots):
            return path
        installed = path.startswith(_LIBRARIES) or any(part in path for part in _PACKAGES)
        return "" if installed else path


@functools.cache
def _torch_folder() -> str:
    """Where torch lies; asked for when it has been imported."""
    return _real_folder(os.path.dirname(sys.modules["torch"].__file__ or "")) + os.sep


@functools.cache
def _real_folder(path: str) -> str:
    """A folder without symbolic links. Thousands of modules lie in a few hundred of them."""
    return os.path.realpath(path)


def _relative(file: str) -> str:
    """As seen from here where it lies below; whole otherwise."""
    try:
        here = os.getcwd() + os.sep
    except OSError:  # it was deleted
        return file
    return file.removeprefix(here)
