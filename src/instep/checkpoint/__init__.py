"""Checkpoints: the format, safe writing, distrustful reading, retention.

A run fills a `Checkpoint` and hands it to a `Writer`; `read_newest` gives the last whole one back. What its parts are made of
comes from `state_dict()`s and `capture_optimizer`, and goes back through `restore_model` and `restore_optimizer`.
"""

from instep.checkpoint.checkpoint_folder import locate, steps
from instep.checkpoint.encoded import check
from instep.checkpoint.model import restore_model
from instep.checkpoint.optimizer import capture_optimizer, restore_optimizer
from instep.checkpoint.read import manifest_of, read, read_newest, verify
from instep.checkpoint.record import Checkpoint, Skipped
from instep.checkpoint.write import write
from instep.checkpoint.writer import Writer

__all__ = [
    "Checkpoint",
    "Skipped",
    "Writer",
    "capture_optimizer",
    "check",
    "locate",
    "manifest_of",
    "read",
    "read_newest",
    "restore_model",
    "restore_optimizer",
    "steps",
    "verify",
    "write",
]
