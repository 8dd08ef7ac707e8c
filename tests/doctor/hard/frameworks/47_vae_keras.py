# kind: inside frameworks
# expect: nothing
# like: missing-zero-grad
# why: The own train_step never calls zero_grad nor backward: torch.autograd.grad returns fresh gradients that go straight
#      to the Keras optimizer, and .grad stays empty. Validation uses the mean of the posterior, without sampling.
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import layers, ops

torch.set_num_threads(1)

LATENT, GENES = 6, 40


def expression_profiles(n, seed, loadings):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, LATENT))
    x = np.tanh(factors @ loadings) + 0.15 * rng.standard_normal((n, GENES))
    return x.astype("float32")


class Encoder(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.Dense(64, activation="relu")
        self.mean = layers.Dense(LATENT)
        self.log_var = layers.Dense(LATENT)

    def call(self, x):
        h = self.hidden(x)
        return self.mean(h), self.log_var(h)


class VAE(keras.Model):
    def __init__(self, beta=0.1, clip=5.0, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.beta, self.clip = beta, clip
        self.encoder = Encoder()
        self.decoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(GENES)])
        self.noise = keras.random.SeedGenerator(seed)
        self.trackers = {k: keras.metrics.Mean(name=k) for k in ("loss", "recon", "kl")}

    @property
    def metrics(self):
        return list(self.trackers.values())

    def call(self, x, training=False):
        mean, log_var = self.encoder(x)
        z = mean
        if training:
            z = mean + ops.exp(0.5 * log_var) * keras.random.normal(ops.shape(mean), seed=self.noise)
        return self.decoder(z), mean, log_var

    def objective(self, x, training):
        recon, mean, log_var = self(x, training=training)
        error = ops.mean(ops.square(x - recon))
        kl = -0.5 * ops.mean(1 + log_var - ops.square(mean) - ops.exp(log_var))
        return error + self.beta * kl, error, kl

    def track(self, n, loss, error, kl):
        for name, value in (("loss", loss), ("recon", error), ("kl", kl)):
            self.trackers[name].update_state(value.detach(), sample_weight=n)
        return {name: tracker.result() for name, tracker in self.trackers.items()}

    def train_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        loss, error, kl = self.objective(x, training=True)
        variables = self.trainable_variables[:]
        grads = torch.autograd.grad(loss, [v.value for v in variables])
        norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
        factor = torch.clamp(self.clip / (norm + 1e-6), max=1.0)
        with torch.no_grad():
            self.optimizer.apply([g * factor for g in grads], variables)
        return self.track(len(x), loss, error, kl)

    def test_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        return self.track(len(x), *self.objective(x, training=False))


def main():
    keras.utils.set_random_seed(15)
    loadings = np.random.default_rng(100).standard_normal((LATENT, GENES)) * 0.7
    train, valid = expression_profiles(2560, 1, loadings), expression_profiles(640, 2, loadings)
    mean, std = train.mean(0), train.std(0)
    train, valid = (train - mean) / std, (valid - mean) / std

    vae = VAE(seed=15)
    vae(train[:2])
    vae.compile(optimizer=keras.optimizers.Adam(learning_rate=2e-3))
    history = vae.fit(train, batch_size=64, epochs=8, shuffle=True, validation_data=(valid,), verbose=0).history
    for epoch in range(len(history["loss"])):
        print(f"epoch {epoch}: loss {history['loss'][epoch]:.4f} val recon {history['val_recon'][epoch]:.4f} "
              f"val kl {history['val_kl'][epoch]:.4f}")


if __name__ == "__main__":
    main()
