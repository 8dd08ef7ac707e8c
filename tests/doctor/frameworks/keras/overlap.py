"""train-valid-overlap: validation data that are trained on, in part."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.randn(160, 8).astype("float32")
y = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)
hidden, out = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)
model = keras.Sequential([keras.Input((8,)), hidden, out])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
held_out = (x[64:], y[64:])  # wrong
held_out = (x[112:], y[112:])  # right
history = model.fit(x[:112], y[:112], validation_data=held_out, batch_size=16, epochs=3, verbose=0)  # found
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
