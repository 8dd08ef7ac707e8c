"""Keras on its torch backend: compile and fit over the torch model. The optimizer is Keras's own AdamW."""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"
import keras

from benchmarks.peer.work import ADAMW, Job


def prepare(job: Job) -> Callable[[], object]:
    model = keras.Sequential([keras.layers.TorchModuleWrapper(job.model)])
    model.compile(
        optimizer=keras.optimizers.AdamW(ADAMW["lr"], weight_decay=ADAMW["weight_decay"], epsilon=1e-8),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    callbacks: list[Any] = []
    if job.work.kind == "checkpoint":
        callbacks = [keras.callbacks.ModelCheckpoint(str(job.folder / "model.keras"), save_freq=job.work.start)]
    loader = job.loader()
    return lambda: model.fit(loader, epochs=1, verbose=0, callbacks=callbacks)
