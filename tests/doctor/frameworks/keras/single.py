"""single-class-loss: a softmax over one output."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.randn(96, 8).astype("float32")
y = (x[:, :1] + x[:, 1:2] > 0).astype("float32")
out = keras.layers.Dense(1, activation="softmax")  # wrong
out = keras.layers.Dense(1, activation="sigmoid")  # right
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), out])
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)  # found
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
