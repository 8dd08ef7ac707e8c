# kind: frameworks
# expect: softmax-before-cross-entropy
# why: The last Dense layer ends in a softmax and the loss is built with from_logits=True, so a second softmax runs over the
#      probabilities.
"""Grain varieties from small images with Keras on the torch backend."""
from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from keras import layers  # noqa: E402

SIDE, VARIETIES = 12, 6


def make_grains(count: int, shapes: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(VARIETIES, size=count)
    images = shapes[labels]
    shift = rng.integers(-1, 2, size=(count, 2))
    images = np.stack([np.roll(image, tuple(s), axis=(0, 1)) for image, s in zip(images, shift)])
    images = images + rng.normal(0, 2.0, images.shape)
    return images[..., None].astype("float32"), labels.astype("int64")


def smooth_shapes(rng: np.random.Generator) -> np.ndarray:
    raw = rng.normal(size=(VARIETIES, SIDE, SIDE))
    for axis in (1, 2):
        raw = raw + np.roll(raw, 1, axis) + np.roll(raw, -1, axis)
    return raw / raw.std()


def build_model(width: int = 16, dropout: float = 0.2) -> keras.Model:
    inputs = keras.Input((SIDE, SIDE, 1))
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(2 * width, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(48, activation="relu")(x)
    x = layers.Dropout(dropout)(x)
    outputs = layers.Dense(VARIETIES, activation="softmax", name="variety")(x)
    return keras.Model(inputs, outputs, name="grains")


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        shown = " ".join(f"{name} {value:.4f}" for name, value in (logs or {}).items())
        print(f"epoch {epoch}: {shown}")


def confusion(truth: np.ndarray, guess: np.ndarray) -> np.ndarray:
    table = np.zeros((VARIETIES, VARIETIES), dtype=int)
    np.add.at(table, (truth, guess), 1)
    return table


def main() -> None:
    torch.set_num_threads(1)
    keras.utils.set_random_seed(19)
    rng = np.random.default_rng(19)
    shapes = smooth_shapes(rng)
    x_train, y_train = make_grains(1920, shapes, rng)
    x_valid, y_valid = make_grains(512, shapes, rng)
    x_test, y_test = make_grains(512, shapes, rng)

    epochs, batch_size = 5, 32
    steps = epochs * len(x_train) // batch_size
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(2e-3, steps), weight_decay=1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x_train, y_train, batch_size=batch_size, epochs=epochs, shuffle=True, verbose=0,
              validation_data=(x_valid, y_valid), callbacks=[Report()])
    guess = model.predict(x_test, batch_size=64, verbose=0).argmax(axis=1)
    print("test accuracy", round(float((guess == y_test).mean()), 4))
    print(confusion(y_test, guess))


if __name__ == "__main__":
    main()
