# kind: second_phase
# expect: nothing
# why: might be accused of optimizer-recreated, lr-overwritten-by-load and schedule-wrong-unit; the second run rebuilds everything and loads model, optimizer, schedule and generator from the checkpoint file, so that the learning rate goes on where the cosine stood.
"""Character language model whose training is stopped and resumed from a file."""
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    vocab: int = 12
    window: int = 24
    hidden: int = 48
    batch: int = 64
    epochs: int = 10
    lr: float = 4e-3
    clip: float = 1.0
    seed: int = 13


def stream(n, table, gen):
    """A second-order Markov chain of symbols."""
    out = [0, 1]
    dice = torch.rand(n, generator=gen).tolist()
    cumulative = table.cumsum(-1).tolist()
    for u in dice:
        row = cumulative[out[-2]][out[-1]]
        out.append(next((i for i, c in enumerate(row) if u < c), len(row) - 1))
    return torch.tensor(out[2:])


def windows(symbols, size):
    count = (len(symbols) - 1) // size
    x = symbols[:count * size].view(count, size)
    y = symbols[1:count * size + 1].view(count, size)
    return TensorDataset(x, y)


class CharModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, 24)
        self.rnn = nn.GRU(24, cfg.hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(cfg.hidden, cfg.vocab)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.out(self.drop(hidden))


class Trainer:
    def __init__(self, cfg, train, valid):
        self.cfg, self.epoch, self.history = cfg, 0, []
        self.order = torch.Generator().manual_seed(cfg.seed)
        self.train_loader = DataLoader(train, batch_size=cfg.batch, shuffle=True, generator=self.order)
        self.valid_loader = DataLoader(valid, batch_size=256)
        self.model = CharModel(cfg)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=cfg.epochs, eta_min=1e-4)

    def run(self, until):
        while self.epoch < until:
            self.model.train()
            for x, y in self.train_loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
                self.optimizer.step()
            self.schedule.step()
            self.epoch += 1
            self.history.append(self.perplexity(self.valid_loader))
            print(f"epoch {self.epoch} valid perplexity {self.history[-1]:.3f} next lr {self.schedule.get_last_lr()[0]:.2e}")

    @torch.no_grad()
    def perplexity(self, loader):
        self.model.eval()
        nll, count = 0.0, 0
        for x, y in loader:
            nll += F.cross_entropy(self.model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            count += y.numel()
        return math.exp(nll / count)

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "schedule": self.schedule.state_dict(), "epoch": self.epoch, "history": self.history,
                    "order": self.order.get_state(), "torch_rng": torch.get_rng_state()}, path)

    def load(self, path):
        saved = torch.load(path, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.epoch, self.history = saved["epoch"], saved["history"]
        self.order.set_state(saved["order"])
        torch.set_rng_state(saved["torch_rng"])


def main():
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    table = torch.softmax(2.0 * torch.randn(cfg.vocab, cfg.vocab, cfg.vocab, generator=gen), dim=-1)
    train, valid, test = (windows(stream(n, table, gen), cfg.window) for n in (60000, 8000, 8000))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        first = Trainer(cfg, train, valid)
        first.run(until=4)
        first.save(path)
        rate = first.optimizer.param_groups[0]["lr"]
        del first

        second = Trainer(cfg, train, valid)
        second.load(path)
        assert math.isclose(second.optimizer.param_groups[0]["lr"], rate)
        print(f"resumed after epoch {second.epoch}")
        second.run(until=cfg.epochs)
    print(f"test perplexity {second.perplexity(DataLoader(test, batch_size=256)):.3f}")


if __name__ == "__main__":
    main()
