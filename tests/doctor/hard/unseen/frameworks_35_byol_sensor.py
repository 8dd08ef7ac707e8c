# kind: inside frameworks
# expect: nothing
# like: teacher-shares-weights
# why: The target network is a deep copy of the online one, takes no gradient and is moved by an exponential average in
#      on_train_batch_end under no_grad; the linear probe learns on detached features on purpose.
import copy
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def machine_vibrations(n, generator, length=64, states=5):
    state = torch.randint(states, (n,), generator=generator)
    t = torch.arange(length) / length
    f = 2.0 + 2.0 * state.float()
    phase = 6.28 * torch.rand(n, 1, generator=generator)
    base = torch.sin(6.28 * f[:, None] * t + phase)
    burst = 0.6 * torch.sin(6.28 * (25 - 3 * f[:, None]) * t + 2 * phase)
    wave = base + burst + 0.3 * torch.randn(n, length, generator=generator)
    return ((wave - wave.mean(1, keepdim=True)) / wave.std(1, keepdim=True)).unsqueeze(1), state


class Encoder(nn.Module):
    def __init__(self, width=32, out=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(1, width, 7, stride=2, padding=3), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GroupNorm(4, width), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(4 * width, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, out))

    def forward(self, x):
        h = self.trunk(x)
        return h, self.projector(h)


class BYOL(L.LightningModule):
    def __init__(self, lr=1e-3, tau=0.98, states=5):
        super().__init__()
        self.lr, self.tau = lr, tau
        self.online = Encoder()
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 32))
        self.probe = nn.Linear(128, states)
        self.hits, self.seen = 0, 0

    def augment(self, x):
        gain = 1 + 0.2 * torch.randn(len(x), 1, 1)
        shift = int(torch.randint(0, x.shape[-1], (1,)))
        return torch.roll(x, shift, dims=-1) * gain + 0.1 * torch.randn_like(x)

    def regress(self, view, other):
        features, z = self.online(view)
        with torch.no_grad():
            _, goal = self.target(other)
        similarity = F.cosine_similarity(self.predictor(z), goal, dim=-1)
        return features, (2 - 2 * similarity).mean()

    def training_step(self, batch, batch_idx):
        x, state = batch
        a, b = self.augment(x), self.augment(x)
        features, loss_ab = self.regress(a, b)
        _, loss_ba = self.regress(b, a)
        probe_loss = F.cross_entropy(self.probe(features.detach()), state)
        return 0.5 * (loss_ab + loss_ba) + probe_loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters()):
                slow.lerp_(fast, 1 - self.tau)

    def on_validation_epoch_start(self):
        self.hits, self.seen = 0, 0

    def validation_step(self, batch, batch_idx):
        x, state = batch
        features, _ = self.online(x)
        self.hits += (self.probe(features).argmax(-1) == state).sum().item()
        self.seen += len(state)

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch}: probe accuracy {self.hits / self.seen:.3f}")

    def configure_optimizers(self):
        learned = [*self.online.parameters(), *self.predictor.parameters(), *self.probe.parameters()]
        return torch.optim.AdamW(learned, lr=self.lr, weight_decay=1e-4)


if __name__ == "__main__":
    L.seed_everything(8)
    g = torch.Generator().manual_seed(99)
    train = TensorDataset(*machine_vibrations(1536, g))
    valid = TensorDataset(*machine_vibrations(384, g))
    trainer = L.Trainer(max_epochs=8, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(BYOL(), DataLoader(train, 64, shuffle=True, drop_last=True), DataLoader(valid, 128))
