"""A small language model of transformers, from its configuration to a folder that from_pretrained loads.

    python examples/hugging_face.py --epochs 6 --folder runs/sentences --out models/sentences

It makes a tokenizer and a data set of sentences, trains a GPT-2 of 30,000 weights on them with gradient accumulation, writes a
sentence after each epoch, and saves the model with its tokenizer. With `--lora` the model is frozen and an adapter is trained.
Nothing is downloaded. `instep train examples/hugging_face.py --lr 0.01` trains it too.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from instep import OneCycle, Trainer, data, evaluating
from instep.integrations.huggingface import save_pretrained

WHO, WHERE = ("the cat", "the old dog", "a bird", "my small brother"), ("on the mat", "under the tree", "in the rain")
DOES = {"the cat": "slept", "the old dog": "ran and ran", "a bird": "sang", "my small brother": "sat"}


def sentences() -> list[str]:
    """Who does what is always the same; where, and when, is not."""
    parts = itertools.product(WHO, WHERE, ("all day", "at night", ""), ("", "and then it was late"))
    return [" ".join(f"{who} {DOES[who]} {where} {when} {end}".split()) for who, where, when, end in parts]


def make_tokenizer() -> Any:
    """One word, one token."""
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    words = dict.fromkeys([*special.values(), *" ".join(sentences()).split()])
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def make_data(tokenizer: Any) -> DatasetDict:
    """Tokenised; the texts may stay, as the model does not take them."""
    rows = Dataset.from_dict({"text": sentences()})
    rows = rows.map(lambda row: {"input_ids": tokenizer(f"<s> {row['text']} </s>")["input_ids"]})
    parts = rows.train_test_split(test_size=0.15, seed=0)
    return DatasetDict({"train": parts["train"], "validation": parts["test"]})


def build(epochs: int = 6, lr: float = 0.02, lora: bool = False) -> Trainer:
    tokenizer = make_tokenizer()
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    model: Any = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=32, **ids))
    if lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model, LoraConfig(r=4, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, task_type="CAUSAL_LM")
        )
    return Trainer(
        model,
        optimizer=torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr),
        schedule=OneCycle(max_lr=lr),
        train=data.source(make_data(tokenizer), collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)),
        metrics=("accuracy", "perplexity"),
        epochs=epochs,
        batch_size=16,
        update_cycle=4,  # the tokens of all four micro-batches are counted, so it is the update of 16 sentences at once
        save_frozen=not lora,
        progress=False,
    )


def write_sentence(model: Any, tokenizer: Any, begin: str) -> str:
    prompt = tokenizer(f"<s> {begin}", return_tensors="pt")
    with evaluating(model):
        made = model.generate(
            input_ids=prompt["input_ids"], attention_mask=prompt["attention_mask"], max_new_tokens=12, do_sample=False
        )
    return str(tokenizer.decode(made[0], skip_special_tokens=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--lora", action="store_true")
    options = parser.parse_args()
    trainer = build(options.epochs, lora=options.lora)
    if options.folder is not None:
        trainer.run.set_folder(options.folder)
    tokenizer = make_tokenizer()
    for update in trainer.updates():  # writing a sentence in between changes nothing
        if (update.step + 1) % trainer.steps_per_epoch == 0:
            print(f"epoch {update.epoch + 1}: loss {update.loss:.3f}, {write_sentence(trainer.model, tokenizer, 'the old dog')}")
    found = trainer.evaluate()
    print(f"perplexity {found['valid/perplexity']:.2f}, accuracy of the next word {found['valid/accuracy']:.0%}")
    if options.out is not None:
        print(f"wrote {options.out}: {', '.join(save_pretrained(trainer, options.out))}")


if __name__ == "__main__":
    main()
