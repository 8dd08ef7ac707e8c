# kind: no_loader
# expect: padding-in-loss
# why: Utterances are padded to the longest of the batch with label 0, which is also silence, and the loss is the mean over all frames
#      including the padded ones; only the evaluation masks them.
"""Phone label for each frame of an utterance; batches are drawn from an endless generator of utterances."""
import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

SILENCE = 0


@dataclass
class Config:
    phones: int = 12
    mels: int = 20
    shortest: int = 15
    longest: int = 40
    corpus: int = 600
    held_out: int = 120
    batch: int = 16
    steps: int = 256
    hidden: int = 40
    lr: float = 3e-3
    seed: int = 19


@dataclass
class Batch:
    frames: Tensor
    labels: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        return torch.arange(self.frames.shape[1])[None] < self.lengths[:, None]


class Corpus:
    def __init__(self, n: int, cfg: Config, gen: torch.Generator) -> None:
        self.cfg, self.gen = cfg, gen
        self.prototypes = 0.8 * torch.randn(cfg.phones, cfg.mels, generator=torch.Generator().manual_seed(100))
        self.utterances = [self.speak() for _ in range(n)]

    def speak(self) -> tuple[Tensor, Tensor]:
        length = int(torch.randint(self.cfg.shortest, self.cfg.longest + 1, (1,), generator=self.gen))
        labels: list[int] = []
        while len(labels) < length:
            pause = float(torch.rand(1, generator=self.gen)) < 0.2
            phone = SILENCE if pause else int(torch.randint(1, self.cfg.phones, (1,), generator=self.gen))
            labels += [phone] * int(torch.randint(3, 8, (1,), generator=self.gen))
        track = torch.tensor(labels[:length])
        frames = self.prototypes[track]
        frames = 0.5 * frames + 0.25 * frames.roll(1, 0) + 0.25 * frames.roll(-1, 0)
        return frames + 0.9 * torch.randn(frames.shape, generator=self.gen), track

    def statistics(self) -> tuple[Tensor, Tensor]:
        frames = torch.cat([x for x, _ in self.utterances])
        return frames.mean(0), frames.std(0)

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        self.utterances = [((x - mean) / std, y) for x, y in self.utterances]

    def collate(self, rows: list[int]) -> Batch:
        frames, labels = zip(*(self.utterances[i] for i in rows), strict=True)
        return Batch(
            pad_sequence(frames, batch_first=True),
            pad_sequence(labels, batch_first=True, padding_value=SILENCE),
            torch.tensor([len(y) for y in labels]),
        )

    def forever(self, size: int) -> Iterator[Batch]:
        while True:
            order = torch.randperm(len(self.utterances), generator=self.gen).tolist()
            for start in range(0, len(order) - size + 1, size):
                yield self.collate(order[start : start + size])

    def once(self, size: int) -> Iterator[Batch]:
        for start in range(0, len(self.utterances), size):
            yield self.collate(list(range(start, min(start + size, len(self.utterances)))))


class PhoneTagger(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.inlet = nn.Sequential(nn.Linear(cfg.mels, cfg.hidden), nn.ReLU(), nn.Dropout(0.1))
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, batch_first=True, bidirectional=True)
        self.outlet = nn.Linear(2 * cfg.hidden, cfg.phones)

    def forward(self, batch: Batch) -> Tensor:
        packed = pack_padded_sequence(self.inlet(batch.frames), batch.lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=batch.frames.shape[1])
        return self.outlet(h)


def frame_loss(logits: Tensor, batch: Batch) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), label_smoothing=0.02)


@torch.no_grad()
def evaluate(model: PhoneTagger, corpus: Corpus) -> tuple[float, float]:
    model.eval()
    hits = speech_hits = frames = speech = 0
    for batch in corpus.once(40):
        right = (model(batch).argmax(-1) == batch.labels) & batch.mask
        voiced = batch.mask & (batch.labels != SILENCE)
        hits, frames = hits + int(right.sum()), frames + int(batch.mask.sum())
        speech_hits, speech = speech_hits + int((right & voiced).sum()), speech + int(voiced.sum())
    return hits / frames, speech_hits / speech


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    cfg = Config(steps=parser.parse_args().steps)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    train = Corpus(cfg.corpus, cfg, torch.Generator().manual_seed(cfg.seed))
    valid = Corpus(cfg.held_out, cfg, torch.Generator().manual_seed(cfg.seed + 1))
    mean, std = train.statistics()
    for corpus in (train, valid):
        corpus.standardise(mean, std)

    model = PhoneTagger(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.steps, eta_min=1e-4)
    batches = train.forever(cfg.batch)
    for step in range(1, cfg.steps + 1):
        model.train()
        batch = next(batches)
        loss = frame_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        scheduler.step()
        if step % 64 == 0:
            overall, voiced = evaluate(model, valid)
            print(f"step {step:4d} loss {loss.item():.4f} valid frame acc {overall:.3f} voiced {voiced:.3f}")


if __name__ == "__main__":
    main()
