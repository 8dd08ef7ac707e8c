"""What the losses of transformers divide by, head by head: pieces weighted by their counts give the gradient of the whole."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import hugging_face
from instep.data.batch_layout import BY_SAMPLE
from instep.loop.model_loss import ModelLoss

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

VOCABULARY, LENGTH, SAMPLES = 20, 7, 3
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PICTURE = {"image_size": 8, "patch_size": 4, **{name: value for name, value in TEXT.items() if name != "vocab_size"}}
BOTH = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
WIDE = {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": VOCABULARY}
SOUND = {**TEXT, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
SOUND |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 8, "n_layer": 1, "n_head": 2, "pad_token_id": 0}

DRAWN = torch.Generator().manual_seed(0)
IDS = torch.randint(3, VOCABULARY, (SAMPLES, LENGTH), generator=DRAWN)
LABELS = IDS.clone()
LABELS[0, 4:] = LABELS[1, :2] = -100
TOKENS = {"input_ids": IDS, "labels": LABELS}
KEPT, SHIFTED = int((LABELS != -100).sum()), int((LABELS[:, 1:] != -100).sum())
THREE, NUMBERS = torch.tensor([0, 1, 2]), torch.tensor([0.5, 1.5, -1.0])
MANY = torch.rand(SAMPLES, 3, generator=DRAWN).round()
PIXELS = torch.rand(SAMPLES, 3, 8, 8, generator=DRAWN)
INSIDE, ONE_OUTSIDE = {"end_positions": torch.tensor([1, 2, 6])}, {"end_positions": torch.tensor([1, 2, 9])}
START = {"input_ids": IDS, "start_positions": torch.tensor([0, 1, 2])}
CHOICES = {"input_ids": torch.stack([IDS, IDS.flip(1)], 1), "labels": torch.tensor([0, 1, 1])}
SEGMENTS = torch.randint(3, (2, 32, 32), generator=DRAWN)
SEGMENTS[0, :9] = 255
SPOKEN = {"input_values": torch.rand(2, 400, generator=DRAWN), "labels": torch.randint(1, VOCABULARY, (2, 5), generator=DRAWN)}
FOUR = {"num_labels": 3, "hidden_sizes": [8] * 4, "depths": [1] * 4, "num_attention_heads": [1] * 4, "decoder_hidden_size": 8}

# The class, its configuration, a batch, and what its mean divides by (1 for a sum).
EXACT: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], float]] = {
    "causal": ("LlamaForCausalLM", "LlamaConfig", TEXT, TOKENS, SHIFTED),
    "causal with choices": (
        "GPT2DoubleHeadsModel",
        "GPT2Config",
        GPT2,
        {"input_ids": CHOICES["input_ids"], "labels": torch.stack([LABELS] * 2, 1), "mc_labels": CHOICES["labels"]},
        2 * SHIFTED,
    ),
    "masked": ("BertForMaskedLM", "BertConfig", TEXT, TOKENS, KEPT),
    "encoder and decoder": (
        "BartForConditionalGeneration",
        "BartConfig",
        BOTH | WIDE | {"max_position_embeddings": 32},
        TOKENS,
        KEPT,
    ),
    "classes": ("BertForSequenceClassification", "BertConfig", TEXT | {"num_labels": 3}, {"input_ids": IDS, "labels": THREE}, 3),
    "classes, last token": (
        "GPT2ForSequenceClassification",
        "GPT2Config",
        GPT2 | {"num_labels": 3},
        {"input_ids": IDS, "labels": THREE},
        3,
    ),
    "numbers": (
        "BertForSequenceClassification",
        "BertConfig",
        TEXT | {"num_labels": 1},
        {"input_ids": IDS, "labels": NUMBERS},
        3,
    ),
    "several labels": (
        "BertForSequenceClassification",
        "BertConfig",
        TEXT | {"num_labels": 3},
        {"input_ids": IDS, "labels": MANY},
        9,
    ),
    "tokens": (
        "BertForTokenClassification",
        "BertConfig",
        TEXT | {"num_labels": 3},
        TOKENS | {"labels": LABELS.clamp(max=2)},
        KEPT,
    ),
    "choices": ("BertForMultipleChoice", "BertConfig", TEXT, CHOICES, 3),
    "positions": ("BertForQuestionAnswering", "BertConfig", TEXT, START | INSIDE, 3),
    "pictures": (
        "ViTForImageClassification",
        "ViTConfig",
        PICTURE | {"num_labels": 3},
        {"pixel_values": PIXELS, "labels": THREE},
        3,
    ),
    "segments": (
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        FOUR,
        {"pixel_values": torch.rand(2, 3, 32, 32, generator=DRAWN), "labels": SEGMENTS},
        int((SEGMENTS != 255).sum()),
    ),
    "sound, a sum": ("Wav2Vec2ForCTC", "Wav2Vec2Config", SOUND, SPOKEN, 1),
    "sound, a mean": ("Wav2Vec2ForCTC", "Wav2Vec2Config", SOUND | {"ctc_loss_reduction": "mean"}, SPOKEN, 2),
}


def build(name: str, config: str, options: dict[str, Any]) -> Any:
    transformers = hugging_face.load()
    torch.manual_seed(1)
    return getattr(transformers, name)(getattr(transformers, config)(**options)).double().eval()


def doubled(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}


@pytest.mark.parametrize("head", EXACT)
def test_a_head(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hugging_face.keep_double(monkeypatch)
    name, config, options, batch, count = EXACT[head]
    model, batch = build(name, config, options), doubled(batch)
    objective = ModelLoss()
    whole = objective(model, batch)
    assert objective.notice is None
    assert float(whole.count) == count
    samples = len(next(iter(batch.values())))
    pieces = [objective(model, BY_SAMPLE.piece(batch, *ends)) for ends in ((0, 1), (1, samples))]
    split: Any = sum(piece.value * piece.count for piece in pieces)
    split = split / sum(piece.count for piece in pieces) if whole.kind == "mean" else split
    weights = [p for p in model.parameters() if p.requires_grad]
    expected = torch.autograd.grad(whole.value, weights, allow_unused=True)
    found = torch.autograd.grad(split, weights, allow_unused=True)
    largest = max(float(one.abs().max()) for one in expected if one is not None)
    for one, other in zip(expected, found, strict=True):
        assert one is None or float((one - other).abs().max()) <= 1e-12 * largest
    with torch.no_grad():
        looked = ModelLoss()
        assert float(looked(model, batch).count) == count  # also where an evaluation comes first


def mixture() -> tuple[Any, dict[str, Tensor]]:
    experts = {"num_key_value_heads": 2, "num_local_experts": 2, "output_router_logits": True}
    return build("MixtralForCausalLM", "MixtralConfig", TEXT | experts).float(), TOKENS


def pretraining() -> tuple[Any, dict[str, Tensor]]:
    return build("BertForPreTraining", "BertConfig", TEXT), {**TOKENS, "next_sentence_label": torch.tensor([0, 1, 1])}


def contrastive() -> tuple[Any, dict[str, Any]]:
    transformers = hugging_face.load()
    config = transformers.CLIPConfig(text_config=TEXT | {"eos_token_id": 2}, vision_config=PICTURE)
    return transformers.CLIPModel(config), {"input_ids": IDS, "pixel_values": PIXELS, "return_loss": True}


def discriminator() -> tuple[Any, dict[str, Tensor]]:
    batch = {"input_ids": IDS, "attention_mask": (IDS > 5).long(), "labels": (LABELS > 7).long()}
    return build("ElectraForPreTraining", "ElectraConfig", TEXT | {"embedding_size": 8}), batch


def positions() -> tuple[Any, dict[str, Tensor]]:
    return build("BertForQuestionAnswering", "BertConfig", TEXT), START | ONE_OUTSIDE


SAID = {
    mixture: "MixtralForCausalLM .* as cross_entropy of labels and something else .* mean over what counts of labels",
    pretraining: "BertForPreTraining .* cross_entropy of labels, cross_entropy of next_sentence_label, .* mean over samples",
    contrastive: r"CLIPModel .* cross_entropy of no entry of the batch, .* returns Loss\(value, count\)",
    discriminator: "ElectraForPreTraining .* binary_cross_entropy_with_logits of no entry of the batch",
    positions: "BertForQuestionAnswering .* start_positions, end_positions, of which different numbers lie in the sequence",
}


@pytest.mark.parametrize("made", SAID)
def test_what_cannot_be_counted_is_said(made: Callable[[], tuple[Any, dict[str, Any]]]) -> None:
    model, batch = made()
    for has_gradients in (True, False):
        objective = ModelLoss()
        with torch.set_grad_enabled(has_gradients):
            objective(model, batch)
        assert objective.notice is not None
        assert re.search(SAID[made], objective.notice), objective.notice
