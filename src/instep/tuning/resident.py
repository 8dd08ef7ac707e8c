"""Resident: how much memory this process has and how much there is to have; None where the system does not tell."""

import ctypes
import gc
import os
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int | None:
    """What this process holds now."""
    return _from_status("VmRSS")


def peak_bytes() -> int | None:
    """The most that it has held since `restart_peak`; where that is not allowed, since it was started."""
    return _from_status("VmHWM") or _from_usage()


def restart_peak() -> bool:
    """Let the peak begin at what is held now; False where the system does not allow that."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def give_back() -> None:
    """Free what nobody holds any more, and hand it back to the system where the C library can."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return


def available_bytes() -> int | None:
    """What this process may grow to: what it holds now and what is free, or the limit of its container if that is less."""
    here = resident_bytes()
    free = _from_meminfo()
    if here is None or free is None:
        return None
    limits = [
        limit for limit in map(_limit, ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")) if limit
    ]
    return min([here + free, *limits])


def _from_status(name: str) -> int | None:
    return _kilobytes(STATUS, name)


def _from_usage() -> int | None:
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _from_meminfo() -> int | None:
    found = _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    if found is None and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return found


def _kilobytes(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _limit(path: str) -> int | None:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
