# kind: second_phase
# expect: silent-partial-load
# why: The pretraining checkpoint comes from AveragedModel, whose keys begin with "module.", and is loaded with strict=False into a bare network, so no weight of the backbone is replaced.
"""Masked-channel pretraining of a sensor backbone, then activity classification on few labels."""
import argparse
import io

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

CHANNELS, LENGTH, CLASSES = 6, 32, 5


def recordings(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    label = torch.randint(0, CLASSES, (n,), generator=gen)
    mix = torch.randn(CLASSES, CHANNELS, 3, generator=torch.Generator().manual_seed(4))
    t = torch.arange(LENGTH) / LENGTH
    speed = 1 + torch.arange(3.0) + 0.3 * torch.randn(n, 3, generator=gen)
    phase = 6.3 * torch.rand(n, 3, generator=gen)
    sources = torch.sin(6.283 * speed.unsqueeze(-1) * t + phase.unsqueeze(-1))
    return 0.7 * mix[label] @ sources + 0.5 * torch.randn(n, CHANNELS, LENGTH, generator=gen), label


class Backbone(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(CHANNELS, width, 5, padding=2), nn.GroupNorm(4, width), nn.GELU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.GELU(), nn.Conv1d(width, width, 1))
            for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = h + block(h)
        return h


class Pretext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.rebuild = nn.Conv1d(32, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.rebuild(self.backbone(x))


class Activity(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Dropout(0.2), nn.Linear(32, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x).mean(2))


def pretrain(data: Tensor, epochs: int) -> bytes:
    loader = DataLoader(TensorDataset(data), batch_size=96, shuffle=True, drop_last=True)
    model = Pretext()
    smooth = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for (x,) in loader:
            hidden = (torch.rand(x.shape[0], CHANNELS, 1) < 0.35).float()
            error = (model(x * (1 - hidden)) - x).square() * hidden
            loss = error.sum() / (hidden.sum() * LENGTH).clamp(min=1)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            smooth.update_parameters(model)
            total += loss.item()
        print(f"pretrain {epoch} loss {total / len(loader):.4f}")
    buffer = io.BytesIO()
    torch.save(smooth.state_dict(), buffer)
    return buffer.getvalue()


def from_checkpoint(raw: bytes) -> Activity:
    """The head is new, so the checkpoint cannot match in every key."""
    model = Activity()
    state = torch.load(io.BytesIO(raw), weights_only=True)
    model.load_state_dict({k: v for k, v in state.items() if "rebuild" not in k}, strict=False)
    return model


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    return torch.cat([model(x).argmax(1) == y for x, y in loader]).float().mean().item()


def finetune(model: Activity, train: DataLoader, valid: DataLoader, epochs: int) -> None:
    opt = torch.optim.AdamW(
        [{"params": model.backbone.parameters(), "lr": 5e-4}, {"params": model.head.parameters(), "lr": 2e-3}], weight_decay=0.01,
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    for epoch in range(epochs):
        model.train()
        for x, y in train:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        sched.step()
        if epoch % 4 == 3:
            print(f"finetune {epoch} accuracy {accuracy(model, valid):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=8)
    parser.add_argument("--finetune-epochs", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(67)
    gen = torch.Generator().manual_seed(67)
    unlabelled, _ = recordings(1920, gen)
    few, held = recordings(320, gen), recordings(480, gen)
    centre, spread = unlabelled.mean((0, 2), keepdim=True), unlabelled.std((0, 2), keepdim=True)
    raw = pretrain((unlabelled - centre) / spread, args.pretrain_epochs)
    train = DataLoader(TensorDataset((few[0] - centre) / spread, few[1]), batch_size=32, shuffle=True)
    valid = DataLoader(TensorDataset((held[0] - centre) / spread, held[1]), batch_size=240)
    finetune(from_checkpoint(raw), train, valid, args.finetune_epochs)


if __name__ == "__main__":
    main()
