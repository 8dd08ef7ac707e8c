"""One process of several that runs scripts one after the other, as `torchrun` would start each: see `forking.py`."""

import runpy
import warnings


def main(paths: list[str]) -> None:
    warnings.simplefilter("error")
    for path in paths:
        runpy.run_path(path, run_name="__main__")
