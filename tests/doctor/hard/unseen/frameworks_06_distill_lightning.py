# kind: inside frameworks
# expect: nothing
# like: unregistered-module
# why: the teacher sits in a plain list on purpose: it is finished, frozen, in eval mode and used without gradients, and
#      must appear neither in the student's parameters nor in its checkpoints.
"""Knowledge distillation into a small student with Lightning."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
CLASSES = 6


def make_data(count, centers, generator):
    label = torch.randint(0, CLASSES, (count,), generator=generator)
    x = centers[label, torch.randint(0, centers.size(1), (count,), generator=generator)]
    x = x + 0.9 * torch.randn(count, centers.size(2), generator=generator)
    return x, label


def train_teacher(x, y, epochs):
    teacher = nn.Sequential(
        nn.Linear(x.size(1), 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES)
    )
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for epoch in range(epochs):
        teacher.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(teacher(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"teacher epoch {epoch}: loss {total / len(x):.3f}")
    return teacher.eval().requires_grad_(False)


class Student(L.LightningModule):
    def __init__(self, teacher, features, temperature=3.0, alpha=0.7):
        super().__init__()
        self._teacher = [teacher]  # in a list: not a submodule, not in the checkpoint
        self.temperature, self.alpha = temperature, alpha
        self.net = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, CLASSES))

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def soft_targets(self, x):
        return F.log_softmax(self._teacher[0](x) / self.temperature, dim=1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        soft = F.kl_div(
            F.log_softmax(logits / self.temperature, dim=1), self.soft_targets(x), reduction="batchmean", log_target=True
        )
        loss = self.alpha * self.temperature**2 * soft + (1 - self.alpha) * F.cross_entropy(logits, y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(y))
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), batch_size=len(y))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"student epoch {self.current_epoch}: loss {m['train_loss']:.3f}  val acc {m['val_acc']:.3f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--teacher-epochs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    L.seed_everything(17, verbose=False)
    generator = torch.Generator().manual_seed(17)
    centers = torch.randn(CLASSES, 4, 16, generator=generator)
    x, y = make_data(4096, centers, generator)
    vx, vy = make_data(1024, centers, generator)

    teacher = train_teacher(x, y, args.teacher_epochs)
    with torch.no_grad():
        print(f"teacher accuracy {(teacher(vx).argmax(1) == vy).float().mean():.3f}")
    student = Student(teacher, x.size(1))
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(
        student,
        DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        DataLoader(TensorDataset(vx, vy), batch_size=256),
    )


if __name__ == "__main__":
    main()
