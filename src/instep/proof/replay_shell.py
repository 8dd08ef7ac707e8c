"""A Python prompt at a step of a run: IPython where it is installed, else Python's own."""

import importlib.util
from typing import Any

from instep.proof.replay import Replay

TOLD = """\
model      the model, with its weights {when} this update
batch      what it was given; samples has the indices
loss       {loss}
optimizer  as it is then; p.grad of each parameter has its gradient
update     what was recorded of it; replay has everything else"""


def names(replay: Replay) -> dict[str, Any]:
    """What the prompt knows."""
    import torch

    return {
        "model": replay.model,
        "batch": replay.batch,
        "loss": replay.loss,
        "optimizer": replay.optimizer,
        "update": replay.update,
        "samples": replay.samples,
        "replay": replay,
        "trainer": replay.trainer,
        "torch": torch,
    }


def open_shell(replay: Replay) -> None:
    """Open it on this terminal; returns when it is left."""
    known = names(replay)
    told = TOLD.format(when="before" if replay.update is None or replay.update.skipped else "after", loss=replay.loss)
    if importlib.util.find_spec("IPython") is not None:
        from IPython.terminal.embed import InteractiveShellEmbed  # type: ignore[import-not-found, unused-ignore]

        quiet = {"enable_tip": False} if "enable_tip" in InteractiveShellEmbed.class_trait_names() else {}
        InteractiveShellEmbed(banner1=f"{told}\n", **quiet)(local_ns=known)
        return
    import code

    with_history()
    code.interact(told, local=known, exitmsg="")


def with_history() -> None:
    """Arrow keys and completion, where Python was built with them."""
    if importlib.util.find_spec("readline") is not None:
        import readline  # noqa: F401  # code.interact uses it once it is there
