"""What a start loads: the modules of Instep, by number, and none of the packages that this start does not need.

Numbers and names, not seconds: they are the same on every machine. A budget has a little room for new modules; where it is not
enough, look first whether the new ones are needed by every run.
"""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

LOADED = """
def loaded(name):
    now = set(sys.modules)
    print("LOADED", json.dumps([name, sorted(now - before)]))
    return now
"""
WITHOUT_TORCH = f"""
import json, sys
{LOADED}
before = set(sys.modules)
import instep
before = loaded("import instep")
import instep.cli
instep.cli.main(["--help"])
before = loaded("instep --help")
"""
WITH_TORCH = f"""
import json, sys
import torch
{LOADED}
before = set(sys.modules)
from instep import Trainer
before = loaded("from instep import Trainer")
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(64, 4), torch.randint(3, (64,))
torch.nn.functional.cross_entropy(model(x), y).backward()
optimizer.step()
before = set(sys.modules)  # with all that a plain loop loads
Trainer(model, loss=torch.nn.functional.cross_entropy, optimizer=optimizer, train=(x, y), epochs=1, progress=False).fit()
loaded("fit()")
"""


class Start(NamedTuple):
    """What one start added."""

    ours: set[str]
    others: set[str]

    def has(self, *packages: str) -> list[str]:
        """Those of these packages that were loaded, as a whole or in part."""
        return sorted({p for p in packages for name in self.ours | self.others if name == p or name.startswith(f"{p}.")})


def starts(code: str) -> dict[str, Start]:
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = [json.loads(line.removeprefix("LOADED ")) for line in said.splitlines() if line.startswith("LOADED ")]
    return {name: Start(*_parted(modules)) for name, modules in found}


def _parted(modules: list[str]) -> tuple[set[str], set[str]]:
    ours = {name for name in modules if name.partition(".")[0] == "instep"}
    return ours, set(modules) - ours


@pytest.fixture(scope="module")
def light() -> dict[str, Start]:
    return starts(WITHOUT_TORCH)


@pytest.fixture(scope="module")
def heavy() -> dict[str, Start]:
    return starts(WITH_TORCH)


def test_import_instep_loads_nothing_else(light: dict[str, Start]) -> None:
    start = light["import instep"]
    assert start.ours == {"instep"}
    assert start.others == set()


def test_help_loads_little(light: dict[str, Start]) -> None:
    start = light["instep --help"]
    assert len(start.ours) <= 4, start.ours
    assert len(start.others) <= 40, start.others
    assert start.has("torch", "numpy", "tyro", "rich", "asyncio", "email", "multiprocessing") == []


def test_the_trainer_loads_what_every_run_needs(heavy: dict[str, Start]) -> None:
    start = heavy["from instep import Trainer"]
    assert len(start.ours) <= 184, len(start.ours)
    assert len(start.others) <= 25, start.others
    assert start.has("instep.tuning", "instep.cli", "instep.loop.graph", "instep.loop.metrics.names", "instep.data.preview") == []
    assert start.has("instep.doctor.hub", "instep.report.page", "instep.report.terminal", "instep.distributed.turn") == []
    assert start.has("instep.distributed.chosen_turn", "instep.distributed.shard_turn") == []
    assert start.has("instep.data.loading.workers", "instep.optim.group_plan", "instep.loop.nonfinite") == []
    assert start.has("torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.onnx") == []
    assert start.has("sympy", "mpmath", "rich", "tyro", "pandas", "matplotlib", "torchmetrics", "statistics", "html") == []


def test_training_loads_little_more_than_the_plain_loop(heavy: dict[str, Start]) -> None:
    start = heavy["fit()"]
    assert len(start.ours) <= 8, start.ours
    assert len(start.others) <= 8, start.others
    assert start.has("torch", "sympy", "rich", "pandas", "numpy.testing") == []
