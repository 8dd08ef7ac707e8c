"""Tiny models of transformers, made from configurations, each with a batch; and a tokenizer that was never downloaded."""

import logging
import os
import warnings
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
VOCABULARY, LENGTH, SAMPLES = 23, 7, 11
WORDS = "the a cat dog sat ran on under mat tree and then it slept".split()  # noqa: SIM905


def load() -> Any:
    """The package, without what it says to those who have no torchvision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers: Any = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return transformers


def make(kind: str, *, dropout: float = 0.0) -> tuple[Any, dict[str, torch.Tensor]]:
    """A model with weights of its own and some samples for it; labels are ignored here and there, and never alike."""
    transformers = load()
    torch.manual_seed(3)
    drawn = torch.Generator().manual_seed(4)
    ids = torch.randint(3, VOCABULARY, (SAMPLES, LENGTH), generator=drawn)
    lengths = torch.arange(SAMPLES) % (LENGTH - 2) + 2
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    tokens = torch.where(mask == 1, ids, -100)
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    drop = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if kind == "gpt2":
        own = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        drops = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
        config = transformers.GPT2Config(vocab_size=VOCABULARY, **own, **drops)
        return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "attention_mask": mask, "labels": tokens}
    if kind == "bert":
        masked = torch.where(torch.rand(ids.shape, generator=drawn) < 0.3, tokens, -100)
        masked[:, 1] = ids[:, 1]
        config = transformers.BertConfig(vocab_size=VOCABULARY, **shape, **drop, max_position_embeddings=16)
        return transformers.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": masked}
    if kind == "vit":
        config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **shape, **drop)
        pictures, labels = torch.rand(SAMPLES, 3, 8, 8, generator=drawn), torch.arange(SAMPLES) % 3
        return transformers.ViTForImageClassification(config), {"pixel_values": pictures, "labels": labels}
    assert kind == "t5"
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=8,
        d_kv=4,
        d_ff=16,
        num_layers=2,
        num_heads=2,
        dropout_rate=dropout,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config), {"input_ids": ids, "attention_mask": mask, "labels": tokens}


def tokenizer(**options: Any) -> Any:
    """One word, one token."""
    transformers = load()
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    words = {word: number for number, word in enumerate([*special.values(), *WORDS])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special, **options)


def sentences(count: int = 24) -> list[str]:
    drawn = torch.Generator().manual_seed(5)
    lengths = torch.randint(2, 8, (count,), generator=drawn)
    return [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (int(n),), generator=drawn)) for n in lengths]


def keep_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their causal loss and the norms of T5 make float32 of everything, meant for half precision: no place for 1e-12."""
    as_float, to = torch.Tensor.float, torch.Tensor.to

    def stay(one: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return one if one.dtype is torch.float64 and args == (torch.float32,) else to(one, *args, **options)

    monkeypatch.setattr(torch.Tensor, "float", lambda one: one if one.dtype is torch.float64 else as_float(one))
    monkeypatch.setattr(torch.Tensor, "to", stay)
