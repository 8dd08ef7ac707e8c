"""softmax-before-cross-entropy: the model ends in a softmax, the loss is told that it gets logits."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.randn(144, 8).astype("float32")
y = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)
hidden, out = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3, activation="softmax")
model = keras.Sequential([keras.Input((8,)), hidden, out])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # wrong
loss = keras.losses.SparseCategoricalCrossentropy()  # right
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
history = model.fit(x[:96], y[:96], validation_data=(x[96:], y[96:]), batch_size=16, epochs=3, verbose=0)  # found
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
