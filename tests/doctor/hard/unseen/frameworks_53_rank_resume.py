# kind: inside frameworks
# expect: nothing
# like: optimizer-recreated
# why: The job runs in two legs as on a cluster with a time limit; the second leg makes model, optimizer and schedule anew
#      and accelerator.load_state restores all of them, learning rate and random state included.
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

DOCS, FEATURES, EPOCHS, BATCH = 12, 20, 8, 32


def queries(n, seed):
    """Per query DOCS documents with features and a graded relevance of 0 to 4."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(FEATURES, 2, generator=torch.Generator().manual_seed(42))
    x = torch.randn(n, DOCS, FEATURES, generator=g)
    score = (x @ w[:, 0]) / 3 + torch.tanh(x @ w[:, 1]) + 0.4 * torch.randn(n, DOCS, generator=g)
    return x, (score * 1.2 + 2).round().clamp(0, 4)


def listwise_loss(score, relevance):
    target = F.softmax(relevance, dim=1)
    return -(target * F.log_softmax(score, dim=1)).sum(1).mean()


def ndcg(score, relevance, k=5):
    discount = 1 / torch.log2(torch.arange(k) + 2.0)
    gain = 2 ** relevance - 1
    got = (gain.gather(1, score.topk(k, dim=1).indices) * discount).sum(1)
    best = (gain.topk(k, dim=1).values * discount).sum(1)
    return got / best.clamp(min=1e-6)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Progress:
    """Small extra state that travels with the checkpoint."""

    def __init__(self):
        self.epoch = 0

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


@torch.no_grad()
def validate(model, loader):
    model.eval()
    return torch.cat([ndcg(model(x), r) for x, r in loader]).mean().item()


def leg(folder: Path, until: int):
    accelerator = Accelerator(cpu=True)
    train = DataLoader(TensorDataset(*queries(1600, 1)), BATCH, shuffle=True)
    valid = DataLoader(TensorDataset(*queries(400, 2)), 100)
    model = Ranker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(train))
    progress = Progress()
    model, optimizer, train, valid, schedule = accelerator.prepare(model, optimizer, train, valid, schedule)
    accelerator.register_for_checkpointing(progress)
    if folder.exists():
        accelerator.load_state(str(folder))
        accelerator.print(f"resumed at epoch {progress.epoch}, lr {optimizer.param_groups[0]['lr']:.5f}")

    while progress.epoch < until:
        model.train()
        total = 0.0
        for x, relevance in train:
            optimizer.zero_grad()
            loss = listwise_loss(model(x), relevance)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        progress.epoch += 1
        accelerator.print(f"epoch {progress.epoch}: loss {total / len(train):.4f} ndcg@5 {validate(model, valid):.4f}")
    accelerator.save_state(str(folder))
    accelerator.free_memory()


def main():
    set_seed(37)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "state"
        leg(folder, until=EPOCHS // 2)
        leg(folder, until=EPOCHS)


if __name__ == "__main__":
    main()
