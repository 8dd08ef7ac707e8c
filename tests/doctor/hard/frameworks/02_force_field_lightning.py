# kind: inside frameworks
# expect: nothing
# like: evaluated-with-grad
# why: validation records graphs, but the predicted forces are the gradient of the energy, so the graph is needed and
#      used; inference_mode is off for that reason and nothing is kept.
"""Learned interatomic potential: energies and forces (forces = -dE/dx), in Lightning."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def pair_distances(pos):
    n = pos.size(1)
    i, j = torch.triu_indices(n, n, 1)
    return (pos[:, i] - pos[:, j]).pow(2).sum(-1).add(1e-6).sqrt()


def morse_energy(pos):
    r = pair_distances(pos)
    return ((1 - torch.exp(-1.2 * (r - 1.0))) ** 2 - 1).mean(1)


def make_clusters(count, atoms, generator):
    lattice = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=torch.float)[:atoms]
    pos = (lattice + 0.22 * torch.randn(count, atoms, 3, generator=generator)).requires_grad_(True)
    energy = morse_energy(pos)
    (grad,) = torch.autograd.grad(energy.sum(), pos)
    return pos.detach(), energy.detach(), -grad


class Potential(L.LightningModule):
    def __init__(self, lr=3e-3, force_weight=5.0, mean=0.0, std=1.0):
        super().__init__()
        self.save_hyperparameters()
        self.register_buffer("centers", torch.linspace(0.2, 2.6, 16))
        self.net = nn.Sequential(nn.Linear(16, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))

    def forward(self, pos):
        r = pair_distances(pos)
        basis = torch.exp(-((r.unsqueeze(-1) - self.centers) ** 2) / 0.08)
        return self.net(basis).squeeze(-1).mean(1) * self.hparams.std + self.hparams.mean

    def energy_and_forces(self, pos, create_graph):
        pos = pos.detach().requires_grad_(True)
        energy = self(pos)
        (grad,) = torch.autograd.grad(energy.sum(), pos, create_graph=create_graph)
        return energy, -grad

    def training_step(self, batch, batch_idx):
        pos, energy, forces = batch
        e, f = self.energy_and_forces(pos, create_graph=True)
        loss = F.mse_loss(e, energy) + self.hparams.force_weight * F.mse_loss(f, forces)
        self.log("train_loss", loss, on_epoch=True, on_step=False, batch_size=len(pos))
        return loss

    def validation_step(self, batch, batch_idx):
        pos, energy, forces = batch
        with torch.enable_grad():
            e, f = self.energy_and_forces(pos, create_graph=False)
        self.log("val_e_mae", (e.detach() - energy).abs().mean(), batch_size=len(pos))
        self.log("val_f_mae", (f - forces).abs().mean(), batch_size=len(pos))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: loss {m['train_loss']:.5f}  "
              f"energy MAE {m['val_e_mae']:.4f}  force MAE {m['val_f_mae']:.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--atoms", type=int, default=5)
    args = parser.parse_args()

    L.seed_everything(3, verbose=False)
    generator = torch.Generator().manual_seed(3)
    train = make_clusters(2048, args.atoms, generator)
    valid = make_clusters(512, args.atoms, generator)

    model = Potential(mean=float(train[1].mean()), std=float(train[1].std()))
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, inference_mode=False, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(
        model,
        DataLoader(TensorDataset(*train), batch_size=64, shuffle=True),
        DataLoader(TensorDataset(*valid), batch_size=256),
    )


if __name__ == "__main__":
    main()
