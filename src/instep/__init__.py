"""PyTorch training that stays in step: how you run never changes what you get.

The front door. Names are imported when they are first asked for, so that `import instep` costs next to nothing.
"""

TYPE_CHECKING = False  # type checkers take it for True, as they take typing's, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any

    from instep import data as data
    from instep import errors as errors
    from instep import keys as keys
    from instep import schedules as schedules
    from instep.checkpoint.classic import load_classic as load_classic
    from instep.checkpoint.classic import save_classic as save_classic
    from instep.checkpoint.interchange import load_model as load_model
    from instep.checkpoint.interchange import save_model as save_model
    from instep.doctor.watcher import watch as watch
    from instep.integrations.sweep.result import SweepResult as SweepResult
    from instep.integrations.sweep.sweeping import sweep as sweep
    from instep.loop.evaluate import evaluating as evaluating
    from instep.loop.metrics.names import accuracy as accuracy
    from instep.loop.objective import Loss as Loss
    from instep.loop.update import UpdateCycle as UpdateCycle
    from instep.optim.freeze import freeze as freeze
    from instep.optim.freeze import frozen as frozen
    from instep.optim.freeze import unfreeze as unfreeze
    from instep.optim.groups import param_groups as param_groups
    from instep.proof.by_hand import prove_resume as prove_resume
    from instep.proof.by_hand import prove_update_cycle as prove_update_cycle
    from instep.proof.prove import prove as prove
    from instep.proof.replay import Replay as Replay
    from instep.proof.replay import replay as replay
    from instep.proof.result import Proof as Proof
    from instep.records import Evaluation as Evaluation
    from instep.records import StepResult as StepResult
    from instep.records import Update as Update
    from instep.report.graph.graph import graph as graph
    from instep.report.preview import preview as preview
    from instep.run.history import History as History
    from instep.schedules import OneCycle as OneCycle
    from instep.trainer import Trainer as Trainer
    from instep.tuning.batch_size import BatchSizeSearch as BatchSizeSearch
    from instep.tuning.cycles import Cycles as Cycles
    from instep.tuning.range_test import RangeTest as RangeTest

__version__ = "0.1.0"

# Where each public name lives; a name that is a module of its own stands for itself.
_HOME = {
    "BatchSizeSearch": "instep.tuning.batch_size",
    "Cycles": "instep.tuning.cycles",
    "StepResult": "instep.records",
    "Evaluation": "instep.records",
    "History": "instep.run.history",
    "Loss": "instep.loop.objective",
    "OneCycle": "instep.schedules",
    "Proof": "instep.proof.result",
    "RangeTest": "instep.tuning.range_test",
    "Replay": "instep.proof.replay",
    "SweepResult": "instep.integrations.sweep.result",
    "Trainer": "instep.trainer",
    "Update": "instep.records",
    "UpdateCycle": "instep.loop.update",
    "accuracy": "instep.loop.metrics.names",
    "data": "instep.data",
    "errors": "instep.errors",
    "evaluating": "instep.loop.evaluate",
    "freeze": "instep.optim.freeze",
    "frozen": "instep.optim.freeze",
    "graph": "instep.report.graph.graph",
    "keys": "instep.keys",
    "load_classic": "instep.checkpoint.classic",
    "load_model": "instep.checkpoint.interchange",
    "param_groups": "instep.optim.groups",
    "preview": "instep.report.preview",
    "prove": "instep.proof.prove",
    "prove_resume": "instep.proof.by_hand",
    "prove_update_cycle": "instep.proof.by_hand",
    "replay": "instep.proof.replay",
    "save_classic": "instep.checkpoint.classic",
    "save_model": "instep.checkpoint.interchange",
    "schedules": "instep.schedules",
    "sweep": "instep.integrations.sweep.sweeping",
    "unfreeze": "instep.optim.freeze",
    "watch": "instep.doctor.watcher",
}

__all__ = [
    "BatchSizeSearch",
    "Cycles",
    "Evaluation",
    "History",
    "Loss",
    "OneCycle",
    "Proof",
    "RangeTest",
    "Replay",
    "StepResult",
    "SweepResult",
    "Trainer",
    "Update",
    "UpdateCycle",
    "accuracy",
    "data",
    "errors",
    "evaluating",
    "freeze",
    "frozen",
    "graph",
    "keys",
    "load_classic",
    "load_model",
    "param_groups",
    "preview",
    "prove",
    "prove_resume",
    "prove_update_cycle",
    "replay",
    "save_classic",
    "save_model",
    "schedules",
    "sweep",
    "unfreeze",
    "watch",
]


def __getattr__(name: str) -> "Any":
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'instep' has no attribute {name!r}")
    module = _import(home)
    value = module if home == f"instep.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def _import(home: str) -> "Any":
    """A module; while it is imported no garbage is collected. There is none, and looking through torch for it takes 40 ms."""
    import gc
    import importlib

    if not gc.isenabled():
        return importlib.import_module(home)
    gc.disable()
    try:
        return importlib.import_module(home)
    finally:
        gc.enable()


def load_ipython_extension(shell: "Any") -> None:
    """What `%load_ext instep` calls: gives a notebook `%%doctor`."""
    from instep.plugins.notebook import load

    load(shell)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
