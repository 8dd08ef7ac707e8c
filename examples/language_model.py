"""A language model: a small GPT learns the letters of a text that is in this repository, and writes some of its own.

    python examples/language_model.py [--epochs 12]

Each sample is a stretch of the text; the targets are the same letters, one place further. The loss is a mean over letters, so
the update cycle counts letters, and any split of the batch is the same training.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, evaluating, param_groups

TEXT = Path(__file__).resolve().parent.parent / "LICENSE"
CONTEXT, WIDTH, HEADS, LAYERS = 48, 48, 3, 2


class GPT(nn.Module):
    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, letters: Tensor) -> Tensor:
        """(samples, places) -> (samples, letters, places): torch's cross-entropy wants the classes second."""
        x = self.letter(letters) + self.place(torch.arange(letters.shape[1], device=letters.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).transpose(1, 2)  # type: ignore[no-any-return]


class Block(nn.Module):
    """Each place looks at those before it, then thinks for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.think = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        n, places, width = x.shape
        q, k, v = self.qkv(self.look(x)).view(n, places, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # no look at what comes
        x = x + self.out(seen.transpose(1, 2).reshape(n, places, width))
        return x + self.mlp(self.think(x))  # type: ignore[no-any-return]


def read() -> tuple[str, Tensor]:
    """The letters that there are, and the text as their numbers."""
    text = " ".join(TEXT.read_text(encoding="utf-8").lower().split())
    letters = "".join(sorted(set(text)))
    return letters, torch.tensor([letters.index(one) for one in text])


def build(lr: float = 0.01, epochs: int = 12) -> Trainer:
    torch.manual_seed(0)
    letters, text = read()
    stretches = text.unfold(0, CONTEXT + 1, CONTEXT // 2)  # each half overlaps the next
    model = GPT(len(letters))
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(param_groups(model, lr=lr, weight_decay=0.1, no_decay=True)),
        schedule=OneCycle(max_lr=lr),
        train=(stretches[:, :-1], stretches[:, 1:]),
        metrics=("accuracy", "perplexity"),
        epochs=epochs,
        batch_size=32,
        update_cycle=2,
        clip_norm=1.0,
        progress=False,
    )


@torch.no_grad()
def write(model: nn.Module, begin: str, count: int = 60) -> str:
    """The most likely letter, again and again."""
    letters, _ = read()
    text = [letters.index(one) for one in begin]
    with evaluating(model):
        for _ in range(count):
            scores = model(torch.tensor([text[-CONTEXT:]]))[0, :, -1]
            text.append(int(scores.argmax()))
    return "".join(letters[one] for one in text)


def main() -> None:
    parser = argparse.ArgumentParser(description="A small GPT on a text of this repository.")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    trainer = build(epochs=options.epochs)
    for update in trainer.updates():
        if (update.step + 1) % (4 * trainer.steps_per_epoch) == 0:
            print(f"epoch {update.epoch + 1}, loss {update.loss:.2f}: {write(trainer.model, 'the license')!r}")
    letters, text = read()
    tail = text[-CONTEXT * 20 - 1 :]
    found = trainer.evaluate((tail[:-1].view(20, -1), tail[1:].view(20, -1)))
    print(f"{len(letters)} letters, perplexity {found['data/perplexity']:.1f}")


if __name__ == "__main__":
    main()
