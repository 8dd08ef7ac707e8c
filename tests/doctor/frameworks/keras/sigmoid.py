"""sigmoid-before-bce-logits: the model ends in a sigmoid, the loss is told that it gets logits."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.randn(96, 8).astype("float32")
y = (x[:, :1] + x[:, 1:2] > 0).astype("float32")
hidden, out = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")
model = keras.Sequential([keras.Input((8,)), hidden, out])
loss = keras.losses.BinaryCrossentropy(from_logits=True)  # wrong
loss = keras.losses.BinaryCrossentropy()  # right
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss)
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)  # found
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
