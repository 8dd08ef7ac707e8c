# kind: frameworks
# expect: padding-in-loss
# why: The collator pads the labels with PAD like the inputs and compute_loss calls cross_entropy without ignore_index, so
#      about half of the positions in the loss are padding.
"""Small GPT-2 over synthetic process recipes of very different lengths, with the transformers Trainer."""
from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

PAD, BOS, EOS = 0, 1, 2
FIRST, VOCAB, MAX_LEN = 3, 35, 40


class Recipes(Dataset):
    """A recipe is a walk over operations; every operation prefers a handful of successors."""

    def __init__(self, count: int, table: Tensor, gen: torch.Generator) -> None:
        self.items = [self.draw(table, gen) for _ in range(count)]

    @staticmethod
    def draw(table: Tensor, gen: torch.Generator) -> list[int]:
        length = int(torch.randint(5, MAX_LEN - 2, (1,), generator=gen))
        state = int(torch.randint(len(table), (1,), generator=gen))
        tokens = [BOS, FIRST + state]
        for _ in range(length - 1):
            state = int(torch.multinomial(table[state], 1, generator=gen))
            tokens.append(FIRST + state)
        return tokens + [EOS]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self.items[index]}


def collate(features: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    longest = max(len(f["input_ids"]) for f in features)
    ids = torch.full((len(features), longest), PAD)
    mask = torch.zeros(len(features), longest, dtype=torch.long)
    for row, feature in enumerate(features):
        tokens = torch.tensor(feature["input_ids"])
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


class RecipeTrainer(Trainer):
    """Cross-entropy with a little label smoothing on the next operation."""

    smoothing = 0.02

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, **kwargs: Any) -> Any:
        labels = inputs["labels"]
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        logits = outputs.logits[:, :-1]
        loss = F.cross_entropy(
            logits.reshape(-1, logits.size(-1)),
            labels[:, 1:].reshape(-1),
            label_smoothing=self.smoothing if model.training else 0.0,
        )
        return (loss, outputs) if return_outputs else loss


@torch.no_grad()
def sample(model: GPT2LMHeadModel, start: int, steps: int) -> list[int]:
    model.eval()
    tokens = torch.tensor([[BOS, start]])
    for _ in range(steps):
        nxt = model(input_ids=tokens).logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, nxt], dim=1)
        if int(nxt) == EOS:
            break
    return tokens[0].tolist()


def main() -> None:
    torch.set_num_threads(1)
    set_seed(21)
    gen = torch.Generator().manual_seed(21)
    table = torch.softmax(2.5 * torch.randn(VOCAB - FIRST, VOCAB - FIRST, generator=gen), dim=1)
    train, valid = Recipes(1280, table, gen), Recipes(320, table, gen)
    config = GPT2Config(vocab_size=VOCAB, n_positions=MAX_LEN, n_embd=32, n_layer=2, n_head=2, bos_token_id=BOS,
                        eos_token_id=EOS, pad_token_id=PAD, use_cache=False)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=4, per_device_train_batch_size=16, per_device_eval_batch_size=32,
            learning_rate=2e-3, weight_decay=0.01, warmup_steps=20, lr_scheduler_type="cosine",
            eval_strategy="epoch", logging_strategy="epoch", save_strategy="no", report_to="none", use_cpu=True,
            seed=21, disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=False,
        )
        trainer = RecipeTrainer(model=model, args=arguments, data_collator=collate, train_dataset=train, eval_dataset=valid)
        trainer.train()
        print("validation loss", round(trainer.evaluate()["eval_loss"], 4))
    print("sample", sample(model, FIRST + 4, 20))


if __name__ == "__main__":
    main()
