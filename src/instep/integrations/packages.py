"""Whether an outside package is installed, asked before the first step."""

from importlib.util import find_spec

from instep.errors import DescriptionError
from instep.extras import install_command


def require_package(what: str, package: str, *, extra: str) -> None:
    """Raises where the package is missing, with what to type; nothing of it is loaded."""
    if find_spec(package) is None:
        raise DescriptionError(f"{what} needs {package}, which is not installed; type: {install_command(extra)}")
