"""parameter-not-optimized: a train_step of one's own that updates the head alone."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)

    def call(self, x):
        return self.out(self.hidden(x))

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        weights = self.out.trainable_weights  # wrong
        weights = self.trainable_weights  # right
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)  # found
        return {"loss": loss.detach()}


keras.utils.set_random_seed(0)
x = np.random.randn(96, 8).astype("float32")
y = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)
model = Net()
model.compile(optimizer=keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
