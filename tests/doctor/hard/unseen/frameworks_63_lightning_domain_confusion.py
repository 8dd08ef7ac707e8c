# kind: frameworks
# expect: nothing
# why: The generator-side loss leaves gradients in the domain critic, but the critic's own zero_grad comes before its backward,
#      so no step uses them; the schedulers are stepped once an epoch with T_max in epochs.
"""Adversarial domain adaptation: features that classify and hide the factory they come from."""
from __future__ import annotations

import warnings
from dataclasses import dataclass

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")


@dataclass
class Config:
    features: int = 16
    classes: int = 4
    width: int = 48
    confusion: float = 0.1
    lr: float = 2e-3
    critic_lr: float = 1e-3
    batch_size: int = 32
    epochs: int = 6


def draw_parts(count: int, centres: Tensor, offsets: Tensor, gen: torch.Generator) -> TensorDataset:
    labels = torch.randint(len(centres), (count,), generator=gen)
    factory = torch.randint(2, (count,), generator=gen)
    noise = torch.randn(count, centres.size(1), generator=gen)
    return TensorDataset(centres[labels] + offsets[factory] + noise, labels, factory.float())


class DomainConfusion(L.LightningModule):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.cfg = cfg
        self.encoder = nn.Sequential(nn.Linear(cfg.features, cfg.width), nn.LayerNorm(cfg.width), nn.ReLU(),
                                     nn.Linear(cfg.width, cfg.width), nn.ReLU(), nn.Dropout(0.1))
        self.classifier = nn.Linear(cfg.width, cfg.classes)
        self.critic = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.ReLU(), nn.Linear(cfg.width, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.encoder(x))

    def main_step(self, x: Tensor, y: Tensor, factory: Tensor) -> Tensor:
        hidden = self.encoder(x)
        task = F.cross_entropy(self.classifier(hidden), y)
        guess = self.critic(hidden).squeeze(-1)
        confusion = F.binary_cross_entropy_with_logits(guess, torch.full_like(factory, 0.5))
        return task + self.cfg.confusion * confusion

    def training_step(self, batch: list[Tensor], batch_idx: int) -> None:
        x, y, factory = batch
        main_opt, critic_opt = self.optimizers()

        loss = self.main_step(x, y, factory)
        main_opt.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(main_opt, gradient_clip_val=5.0, gradient_clip_algorithm="norm")
        main_opt.step()

        with torch.no_grad():
            hidden = self.encoder(x)
        critic_loss = F.binary_cross_entropy_with_logits(self.critic(hidden).squeeze(-1), factory)
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()
        self.log_dict({"loss": loss.detach(), "critic": critic_loss.detach()}, on_step=False, on_epoch=True)

    def on_train_epoch_end(self) -> None:
        for scheduler in self.lr_schedulers():
            scheduler.step()
        shown = {k: round(float(v), 3) for k, v in self.trainer.callback_metrics.items()}
        print(f"epoch {self.current_epoch}: {shown}")

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        x, y, _ = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(dim=1) == y).float().mean(), batch_size=len(y))

    def configure_optimizers(self) -> tuple[list[torch.optim.Optimizer], list[torch.optim.lr_scheduler.LRScheduler]]:
        main = [*self.encoder.parameters(), *self.classifier.parameters()]
        main_opt = torch.optim.AdamW(main, lr=self.cfg.lr, weight_decay=1e-3)
        critic_opt = torch.optim.Adam(self.critic.parameters(), lr=self.cfg.critic_lr)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR
        return [main_opt, critic_opt], [cosine(opt, T_max=self.cfg.epochs) for opt in (main_opt, critic_opt)]


def main() -> None:
    torch.set_num_threads(1)
    L.seed_everything(13)
    cfg = Config()
    gen = torch.Generator().manual_seed(13)
    centres = torch.randn(cfg.classes, cfg.features, generator=gen)
    offsets = torch.stack([torch.zeros(cfg.features), 0.5 * torch.randn(cfg.features, generator=gen)])
    train = DataLoader(draw_parts(2560, centres, offsets, gen), cfg.batch_size, shuffle=True)
    valid = DataLoader(draw_parts(512, centres, offsets, gen), cfg.batch_size)
    trainer = L.Trainer(max_epochs=cfg.epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(DomainConfusion(cfg), train, valid)


if __name__ == "__main__":
    main()
