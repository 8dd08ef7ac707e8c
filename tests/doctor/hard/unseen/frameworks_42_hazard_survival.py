# kind: inside frameworks
# expect: nothing
# like: accumulation-tail
# why: Manual optimization accumulates over four batches and the epoch has a remainder of two; the last window is divided
#      by its own length and stepped at the epoch's last batch, and zero_grad comes when a window opens.
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

BINS = 10


class Cohort(Dataset):
    """Patients with standardised covariates, a discretised follow-up time and an event flag."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 12, generator=g)
        beta = torch.randn(12, generator=torch.Generator().manual_seed(1000))
        risk = 0.5 * self.x @ beta + 0.4 * self.x[:, 0] * self.x[:, 3]
        time = torch.empty(n).exponential_(generator=g) / torch.exp(risk - 1.4)
        censor = torch.empty(n).exponential_(generator=g) * 9
        self.event = (time <= censor).float()
        self.bin = torch.minimum(time, censor).clamp(max=BINS - 0.01).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "bin": self.bin[i], "event": self.event[i]}


def hazard_nll(logits, bins, event):
    at_risk = (torch.arange(BINS) <= bins[:, None]).float()
    died = F.one_hot(bins, BINS).float() * event[:, None]
    per_bin = F.binary_cross_entropy_with_logits(logits, died, reduction="none")
    return (per_bin * at_risk).sum(1).mean()


def concordance(risk, bins, event):
    earlier = (bins[:, None] < bins[None]) & (event[:, None] > 0)
    agree = (risk[:, None] > risk[None]).float()
    return (agree * earlier).sum() / earlier.sum()


class HazardNet(L.LightningModule):
    def __init__(self, lr=2e-3, accumulate=4):
        super().__init__()
        self.automatic_optimization = False
        self.lr, self.accumulate = lr, accumulate
        self.net = nn.Sequential(nn.Linear(12, 48), nn.SELU(), nn.AlphaDropout(0.05), nn.Linear(48, 48), nn.SELU(),
                                 nn.Linear(48, BINS))
        self.collected = []

    def configure_optimizers(self):
        return torch.optim.Adamax(self.parameters(), lr=self.lr)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        total = self.trainer.num_training_batches
        opened = batch_idx - batch_idx % self.accumulate
        window = min(self.accumulate, total - opened)
        if batch_idx == opened:
            opt.zero_grad()
        loss = hazard_nll(self.net(batch["x"]), batch["bin"], batch["event"])
        self.manual_backward(loss / window)
        if batch_idx + 1 == opened + window:
            self.clip_gradients(opt, gradient_clip_val=2.0, gradient_clip_algorithm="norm")
            opt.step()
        self.log("train_nll", loss.detach(), on_step=False, on_epoch=True)

    def validation_step(self, batch, batch_idx):
        logits = self.net(batch["x"])
        self.log("val_nll", hazard_nll(logits, batch["bin"], batch["event"]), batch_size=len(logits))
        survival = torch.cumprod(1 - torch.sigmoid(logits), dim=1)
        self.collected.append((-survival.sum(1), batch["bin"], batch["event"]))

    def on_validation_epoch_end(self):
        risk, bins, event = (torch.cat(c) for c in zip(*self.collected))
        self.collected.clear()
        if not self.trainer.sanity_checking and self.current_epoch % 2 == 1:
            nll = self.trainer.callback_metrics["val_nll"].item()
            print(f"epoch {self.current_epoch}: val nll {nll:.4f} c-index {concordance(risk, bins, event):.3f}")


if __name__ == "__main__":
    L.seed_everything(21)
    train = DataLoader(Cohort(1600, 1), batch_size=32, shuffle=True)
    valid = DataLoader(Cohort(400, 2), batch_size=200)
    L.Trainer(max_epochs=12, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False).fit(HazardNet(), train, valid)
