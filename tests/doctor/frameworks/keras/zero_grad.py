"""missing-zero-grad: a train_step of one's own that never clears gradients."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(x))

    def train_step(self, data):
        x, y = data
        self.zero_grad()  # right
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)  # found
        return {"loss": loss.detach()}


keras.utils.set_random_seed(0)
x = np.random.randn(96, 6).astype("float32")
model = Net()
model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
history = model.fit(x, np.sin(x[:, :1]), batch_size=16, epochs=3, verbose=0)
print(history.history)
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
