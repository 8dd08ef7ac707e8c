# kind: frameworks
# expect: nothing
# why: compute_loss sums over the answer tokens and divides by num_items_in_batch, the count over the whole accumulation, so the
#      micro batches add up to one mean; prompts and padding carry -100 and the output layer is tied to the embedding on purpose.
"""Question/answer pairs for a small GPT-2: only the answer counts in the loss, with gradient accumulation."""
from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

PAD, ASK, ANSWER, STOP = 0, 1, 2, 3
SYMBOLS, IGNORE = 12, -100
VOCAB, MAX_LEN = 4 + SYMBOLS, 24


class Pairs(Dataset):
    """The answer maps every symbol of the question by a fixed permutation; questions are unique to their split."""

    def __init__(self, questions: list[tuple[int, ...]], mapping: list[int]) -> None:
        self.questions, self.mapping = questions, mapping

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        question = self.questions[index]
        prompt = [ASK, *(4 + s for s in question), ANSWER]
        answer = [*(4 + self.mapping[s] for s in question), STOP]
        return {"input_ids": prompt + answer, "labels": [IGNORE] * len(prompt) + answer}


def draw_questions(count: int, gen: torch.Generator) -> list[tuple[int, ...]]:
    seen: dict[tuple[int, ...], None] = {}
    while len(seen) < count:
        length = int(torch.randint(3, 10, (1,), generator=gen))
        seen[tuple(torch.randint(SYMBOLS, (length,), generator=gen).tolist())] = None
    return list(seen)


def pad_to(rows: list[list[int]], value: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def collate(features: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    ids = pad_to([f["input_ids"] for f in features], PAD)
    labels = pad_to([f["labels"] for f in features], IGNORE)
    mask = pad_to([[1] * len(f["input_ids"]) for f in features], 0)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class AnswerTrainer(Trainer):
    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False,
                     num_items_in_batch: Tensor | int | None = None) -> Any:
        labels = inputs["labels"]
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        logits = outputs.logits[:, :-1].flatten(0, 1)
        targets = labels[:, 1:].flatten()
        total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
        if num_items_in_batch is None:
            num_items_in_batch = (targets != IGNORE).sum()
        loss = total / num_items_in_batch
        return (loss, outputs) if return_outputs else loss


@torch.no_grad()
def exact_match(model: GPT2LMHeadModel, pairs: Pairs, limit: int) -> float:
    """The share of answers in which every token is the most probable one."""
    model.eval()
    right = 0
    for index in range(limit):
        batch = collate([pairs[index]])
        guess = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1].argmax(dim=-1)
        labels = batch["labels"][:, 1:]
        right += bool((guess[labels != IGNORE] == labels[labels != IGNORE]).all())
    return right / limit


def main() -> None:
    torch.set_num_threads(1)
    set_seed(29)
    gen = torch.Generator().manual_seed(29)
    mapping = torch.randperm(SYMBOLS, generator=gen).tolist()
    questions = draw_questions(3072, gen)
    train, valid = Pairs(questions[:2560], mapping), Pairs(questions[2560:], mapping)
    config = GPT2Config(vocab_size=VOCAB, n_positions=MAX_LEN, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0.05,
                        embd_pdrop=0.05, attn_pdrop=0.05, bos_token_id=ASK, eos_token_id=STOP, pad_token_id=PAD, use_cache=False)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=4, per_device_train_batch_size=8, gradient_accumulation_steps=4,
            per_device_eval_batch_size=64, learning_rate=3e-3, weight_decay=0.01, warmup_steps=30,
            lr_scheduler_type="cosine", eval_strategy="epoch", logging_strategy="epoch", save_strategy="no",
            report_to="none", use_cpu=True, seed=29, disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = AnswerTrainer(model=model, args=arguments, data_collator=collate, train_dataset=train, eval_dataset=valid)
        trainer.train()
    print(f"whole answers right: {exact_match(model, valid, 200):.3f}")


if __name__ == "__main__":
    main()
