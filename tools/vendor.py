"""Fetches what the pages of `instep report` are drawn with: uPlot, from the npm registry. `python tools/vendor.py`

It needs npm and a network. The files are compared with the sums below: another version means another sum, written here by hand.
"""

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "uplot@1.6.32"
VENDOR = Path(__file__).resolve().parent.parent / "src" / "instep" / "report" / "page" / "vendor"
# What is kept of the package, under which name, and its sha256.
FILES = {
    "dist/uPlot.iife.min.js": ("uPlot.iife.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
    "dist/uPlot.min.css": ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
    "LICENSE": ("uPlot.LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", PACKAGE, "--silent"], cwd=folder, check=True)
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            for name, (kept, expected) in FILES.items():
                member = archive.extractfile(f"package/{name}")
                assert member is not None, f"{PACKAGE} has no {name}"
                content = member.read()
                found = hashlib.sha256(content).hexdigest()
                if found != expected:
                    raise SystemExit(
                        f"{name} of {PACKAGE} has the sha256 {found}, not {expected}; look at it before you change FILES."
                    )
                (VENDOR / kept).write_bytes(content)
                print(f"{VENDOR / kept}: {len(content):,} bytes, sha256 {found}")


if __name__ == "__main__":
    main()
