# kind: inside frameworks
# expect: loss-broadcast
# why: y comes as (B,) and the network gives (B, 1); the own train_step subtracts them, so the Huber term is taken over
#      a (B, B) table and the model learns the mean price.
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import layers, ops

torch.set_num_threads(1)


def listings(n, seed):
    rng = np.random.default_rng(seed)
    area = rng.gamma(9.0, 10.0, n)
    rooms = np.clip((area / 25 + rng.normal(0, 1, n)).round(), 1, 9)
    age = rng.uniform(0, 80, n)
    km = rng.exponential(6.0, n)
    floor = rng.integers(0, 12, n)
    lift = (rng.random(n) < 0.5).astype(float)
    price = 3.1 * area + 12 * rooms - 0.9 * age - 7.5 * np.sqrt(km) * 4 + 3 * floor * lift - 2.5 * floor * (1 - lift)
    price = price + rng.normal(0, 12, n)
    return np.stack([area, rooms, age, km, floor, lift], 1).astype("float32"), price.astype("float32")


class PriceModel(keras.Model):
    def __init__(self, width, delta=1.0):
        super().__init__()
        self.delta = delta
        self.hidden = [layers.Dense(width, activation="gelu"), layers.Dense(width, activation="gelu")]
        self.drop = layers.Dropout(0.05)
        self.head = layers.Dense(1)
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.mae = keras.metrics.MeanAbsoluteError(name="mae")

    def call(self, x, training=False):
        for layer in self.hidden:
            x = layer(x)
        return self.head(self.drop(x, training=training))

    @property
    def metrics(self):
        return [self.loss_mean, self.mae]

    def huber(self, y, y_pred):
        err = ops.abs(y - y_pred)
        return ops.mean(ops.where(err < self.delta, 0.5 * err * err, self.delta * (err - 0.5 * self.delta)))

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        y_pred = self(x, training=True)
        loss = self.huber(y, y_pred)
        loss.backward()
        weights = self.trainable_weights[:]
        grads = [w.value.grad for w in weights]
        with torch.no_grad():
            self.optimizer.apply(grads, weights)
        self.loss_mean.update_state(loss.detach())
        self.mae.update_state(y, y_pred.detach())
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        self.mae.update_state(y, y_pred)
        return {"mae": self.mae.result()}


def main():
    keras.utils.set_random_seed(41)
    x, y = listings(4096, 1)
    xv, yv = listings(1024, 2)
    x_mean, x_std, y_mean, y_std = x.mean(0), x.std(0), y.mean(), y.std()
    x, xv = (x - x_mean) / x_std, (xv - x_mean) / x_std
    y, yv = (y - y_mean) / y_std, (yv - y_mean) / y_std

    model = PriceModel(width=32)
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, 6 * 64)))
    history = model.fit(x, y, batch_size=64, epochs=6, validation_data=(xv, yv), shuffle=True, verbose=0)
    for epoch, (loss, mae, val) in enumerate(zip(*(history.history[k] for k in ("loss", "mae", "val_mae")))):
        print(f"epoch {epoch}: loss {loss:.4f} mae {mae:.4f} val_mae {val:.4f}")


if __name__ == "__main__":
    main()
