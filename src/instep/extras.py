"""Outside packages that only some of Instep needs: what to type where they are missing."""


def install_command(extra: str) -> str:
    """The packages of one extra, as something to type: Instep itself may be a clone, which `instep[…]` would not find.

    >>> install_command("plots")
    'pip install "matplotlib>=3.8"'
    """
    from importlib.metadata import PackageNotFoundError, requires  # only where something is missing

    try:
        asked = requires("instep") or []
    except PackageNotFoundError:  # its source is on the path, and nothing is installed
        asked = []
    needed = [package.strip() for package, _, when in (one.partition(";") for one in asked) if _is_of(extra, when)]
    return "pip install " + (" ".join(f'"{package}"' for package in needed) or f'".[{extra}]" in the clone of Instep')


def _is_of(extra: str, when: str) -> bool:
    return when.replace('"', "'").strip() == f"extra == '{extra}'"
