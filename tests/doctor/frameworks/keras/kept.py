"""graph-kept: a train_step of one's own that collects losses with their graphs."""

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
        loss.backward()  # found
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)
        losses.append(loss)  # wrong
        losses.append(loss.detach())  # right
        return {"loss": loss.detach()}


keras.utils.set_random_seed(0)
losses = []
x = np.random.randn(160, 8).astype("float32")
y = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)
model = Net()
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
print(torch.stack(losses).mean().item())
print(sum(float(abs(weight).sum()) for weight in model.get_weights()))
