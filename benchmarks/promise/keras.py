"""Keras on its torch backend, with layers and optimizer of its own."""

import os
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"
import keras

from benchmarks.promise.task import (
    CHECKPOINT_EVERY,
    CLASSES,
    FEATURES,
    LR,
    MOMENTUM,
    SEED,
    WIDTH,
    Task,
    Trained,
    begin_forward,
    data,
    forwards_begun,
)

WAYS = {
    "split": {"": "`SGD(gradient_accumulation_steps=4)`"},
    "short cycle": {"": "`SGD(gradient_accumulation_steps=3)`"},
    "observe": {"": "`fit(validation_data=…)`"},
    "load": {"": "`keras.utils.set_random_seed`; `fit` on a `DataLoader(num_workers=2)`"},
    "resume": {
        "epoch": "`BackupAndRestore` after each epoch",
        "": "`BackupAndRestore(save_freq=4)`",
    },
}


class Counter(keras.callbacks.Callback):
    """Does what the model of the other libraries does in its forward."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        begin_forward()


def train(task: Task) -> Trained:
    keras.utils.set_random_seed(SEED)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(WIDTH, activation="relu"),
            layers.Dropout(task.dropout),
            layers.Dense(CLASSES),
        ]
    )
    accumulation = {"gradient_accumulation_steps": task.cycle} if task.cycle > 1 else {}
    model.compile(
        optimizer=keras.optimizers.SGD(LR, momentum=MOMENTUM, **accumulation),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    callbacks: list[Any] = [Counter()]
    if task.folder:
        often = "epoch" if task.way == "epoch" else CHECKPOINT_EVERY
        callbacks.append(keras.callbacks.BackupAndRestore(str(task.folder / "backup"), save_freq=often))
    x, y = (part.numpy() for part in data())
    arrays: dict[str, Any] = {"x": x, "y": y, "batch_size": task.batch, "shuffle": task.random}
    model.fit(
        **({"x": task.loader()} if task.augmented else arrays),
        epochs=task.epochs,
        validation_data=tuple(part.numpy() for part in data(20, seed=2)) if task.validated else None,
        callbacks=callbacks,
        verbose=0,
    )
    return Trained([variable.value.detach() for variable in model.trainable_variables], forwards_begun())
