# kind: second_phase
# expect: nothing
# why: might be accused of silent-partial-load, optimizer-recreated and augmented-validation; the classifier loads the whole encoder and only its new head is missing, the new phase has a new model, and the noise of the validation spectra is drawn once.
"""Denoising autoencoder with tied decoder weights, then a classifier on top of its encoder."""
import logging
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("spectra")
BANDS, CLASSES, NOISE = 96, 5, 0.5


def spectra(n, gen):
    """Sums of Gaussian peaks; the class decides which two peaks are strong."""
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    axis = torch.linspace(0, 1, BANDS)
    centres = torch.linspace(0.1, 0.9, CLASSES + 1)
    height = 0.3 * torch.rand(n, CLASSES + 1, generator=gen)
    rows = torch.arange(n)
    height[rows, y] += 0.5 + 0.2 * torch.rand(n, generator=gen)
    height[rows, y + 1] += 0.4
    place = centres + 0.02 * torch.randn(n, CLASSES + 1, generator=gen)
    peaks = torch.exp(-((axis - place[:, :, None]) ** 2) / 0.004)
    return (height[:, :, None] * peaks).sum(1) + 0.35 * torch.randn(n, BANDS, generator=gen), y


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(BANDS, 128)
        self.norm = nn.LayerNorm(128)
        self.second = nn.Linear(128, 32)

    def forward(self, x):
        return self.second(F.gelu(self.norm(self.first(x))))


class TiedAutoencoder(nn.Module):
    """The decoder uses the transposed encoder matrices and has biases of its own."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.hidden_bias = nn.Parameter(torch.zeros(128))
        self.output_bias = nn.Parameter(torch.zeros(BANDS))

    def forward(self, x):
        code = self.encoder(x)
        hidden = F.gelu(F.linear(code, self.encoder.second.weight.T, self.hidden_bias))
        return F.linear(hidden, self.encoder.first.weight.T, self.output_bias)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Sequential(nn.GELU(), nn.Dropout(0.1), nn.Linear(32, CLASSES))

    def forward(self, x):
        return self.head(self.encoder(x))


def pretrain(x_train, x_valid, path, epochs=12):
    model = TiedAutoencoder()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    loader = DataLoader(TensorDataset(x_train), batch_size=128, shuffle=True)
    noisy_valid = x_valid + NOISE * torch.randn_like(x_valid)
    best = float("inf")
    for epoch in range(epochs):
        model.train()
        for (clean,) in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(clean + NOISE * torch.randn_like(clean)), clean)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            valid = F.mse_loss(model(noisy_valid), x_valid).item()
        plateau.step(valid)
        if valid < best:
            best = valid
            torch.save(model.state_dict(), path)
        log.info("denoise %d valid %.4f lr %.1e", epoch, valid, optimizer.param_groups[0]["lr"])


def finetune(train, valid, path, epochs=30):
    model = Classifier()
    state = torch.load(path, weights_only=True)
    report = model.load_state_dict({k: v for k, v in state.items() if k.startswith("encoder.")}, strict=False)
    assert not report.unexpected_keys and all(k.startswith("head.") for k in report.missing_keys), report
    optimizer = optim.AdamW([{"params": model.encoder.parameters(), "lr": 3e-4},
                             {"params": model.head.parameters(), "lr": 3e-3}], weight_decay=1e-3)
    loader = DataLoader(TensorDataset(*train), batch_size=32, shuffle=True)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        schedule.step()
        if epoch % 5 == 4:
            log.info("classify %d valid accuracy %.3f", epoch, accuracy(model, valid))
    return model


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    return (model(data[0]).argmax(1) == data[1]).float().mean().item()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    (x_all, y_all), (x_valid, y_valid), (x_test, y_test) = spectra(6000, gen), spectra(800, gen), spectra(1000, gen)
    mean, std = x_all.mean(), x_all.std()
    x_all, x_valid, x_test = ((x - mean) / std for x in (x_all, x_valid, x_test))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "denoiser.pt"
        pretrain(x_all, x_valid, file)
        classifier = finetune((x_all[:500], y_all[:500]), (x_valid, y_valid), file)
    log.info("test accuracy %.3f", accuracy(classifier, (x_test, y_test)))
