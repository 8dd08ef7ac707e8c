# kind: second_phase
# expect: frozen-parameter-moves
# why: In phase two the encoder and the word head are frozen but stay in the AdamW optimizer, and zero_grad(set_to_none=False)
#      leaves them zero gradients, so momentum and weight decay keep moving them.
"""Isolated word recogniser; its encoder is reused for speaker identification with a head of its own."""
import argparse
import logging
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

log = logging.getLogger("speech")


@dataclass
class Config:
    words: int = 10
    speakers: int = 6
    mels: int = 24
    frames: int = 40
    batch: int = 64
    word_steps: int = 350
    speaker_steps: int = 350
    lr: float = 2e-3
    decay: float = 0.05
    seed: int = 11


def synthesize(n: int, cfg: Config, gen: torch.Generator) -> dict[str, Tensor]:
    word = torch.randint(cfg.words, (n,), generator=gen)
    speaker = torch.randint(cfg.speakers, (n,), generator=gen)
    mel = torch.linspace(0, 1, cfg.mels)
    time = torch.linspace(0, 1, cfg.frames)
    w = word.float()[:, None]
    centre = 0.25 + 0.05 * w + 0.15 * torch.sin(2 * math.pi * time * (1 + w % 3))
    formant = torch.exp(-((mel[None, :, None] - centre[:, None, :]) ** 2) / 0.01)
    tilt = 0.35 * torch.cos(math.pi * (speaker.float()[:, None] + 1) * mel)[:, :, None]
    noise = 0.9 * torch.randn(n, cfg.mels, cfg.frames, generator=gen)
    return {"x": formant + tilt + noise, "word": word, "speaker": speaker}


class Encoder(nn.Module):
    def __init__(self, mels: int, width: int = 48) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(mels, width, 5, stride=2, padding=2), nn.GroupNorm(4, width), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GroupNorm(4, width), nn.GELU(),
            nn.Conv1d(width, width, 3, padding=1), nn.GELU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.layers(x)
        return torch.cat([h.mean(-1), h.amax(-1)], dim=1)


class SpeechModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.encoder = Encoder(cfg.mels)
        self.dropout = nn.Dropout(0.1)
        self.heads = nn.ModuleDict({"word": nn.Linear(96, cfg.words)})

    def add_head(self, name: str, classes: int) -> nn.Module:
        self.heads[name] = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, classes))
        return self.heads[name]

    def forward(self, x: Tensor, task: str) -> Tensor:
        return self.heads[task](self.dropout(self.encoder(x)))


@torch.no_grad()
def accuracy(model: SpeechModel, data: dict[str, Tensor], task: str) -> float:
    model.eval()
    hits = sum(
        int((model(x, task).argmax(1) == y).sum()) for x, y in zip(data["x"].split(256), data[task].split(256), strict=True)
    )
    return hits / len(data["x"])


def run_phase(
    model: SpeechModel, optimizer: torch.optim.Optimizer, task: str, train: dict[str, Tensor], valid: dict[str, Tensor],
    steps: int, batch: int, gen: torch.Generator,
) -> None:
    step = 0
    while step < steps:
        order = torch.randperm(len(train["x"]), generator=gen)
        for rows in order.split(batch):
            model.train()
            # the gradient buffers are kept to avoid allocating them anew for each step
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(train["x"][rows], task), train[task][rows], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 70 == 0:
                log.info("%s step %4d loss %.4f valid acc %.3f", task, step, loss.item(), accuracy(model, valid, task))
            if step == steps:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--lr", type=float, default=Config.lr)
    args = parser.parse_args()
    cfg = Config(seed=args.seed, lr=args.lr)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    words_train, words_valid = synthesize(3200, cfg, gen), synthesize(600, cfg, gen)
    voices_train, voices_valid = synthesize(1600, cfg, gen), synthesize(600, cfg, gen)
    mean = words_train["x"].mean((0, 2), keepdim=True)
    std = words_train["x"].std((0, 2), keepdim=True)
    for part in (words_train, words_valid, voices_train, voices_valid):
        part["x"] = (part["x"] - mean) / std

    model = SpeechModel(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.decay)
    run_phase(model, optimizer, "word", words_train, words_valid, cfg.word_steps, cfg.batch, gen)
    word_accuracy = accuracy(model, words_valid, "word")

    for p in model.parameters():
        p.requires_grad_(False)
    head = model.add_head("speaker", cfg.speakers)
    optimizer.add_param_group({"params": list(head.parameters()), "lr": cfg.lr})
    run_phase(model, optimizer, "speaker", voices_train, voices_valid, cfg.speaker_steps, cfg.batch, gen)
    log.info("words %.3f  speakers %.3f", word_accuracy, accuracy(model, voices_valid, "speaker"))


if __name__ == "__main__":
    main()
