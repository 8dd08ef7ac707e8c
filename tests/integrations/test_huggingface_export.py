"""`save_pretrained` from a run and back, LoRA with small checkpoints, and `instep export --to hf`."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch

import hugging_face
from instep import Trainer, data, evaluating, load_model
from instep.errors import CheckpointError, DescriptionError
from instep.integrations.huggingface import save_pretrained

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def make(kind: str, model: Any = None, **options: Any) -> Trainer:
    own, samples = hugging_face.make(kind, dropout=0.1)
    model = own if model is None else model
    given: dict[str, Any] = {"epochs": 1, "batch_size": 4, "progress": False, "train": samples} | options
    trained = [p for p in model.parameters() if p.requires_grad]
    return Trainer(model, optimizer=torch.optim.AdamW(trained, lr=1e-2), **given)


def logits(model: Any, kind: str) -> torch.Tensor:
    with evaluating(model):
        found: torch.Tensor = model(**hugging_face.make(kind)[1]).logits
    return found


@pytest.mark.parametrize("kind", ["gpt2", "bert", "vit", "t5"])
def test_what_is_written_gives_equal_outputs(kind: str, tmp_path: Path) -> None:
    trainer = make(kind)
    trainer.fit()
    files = save_pretrained(trainer, tmp_path / "out")
    assert {"config.json", "model.safetensors"} <= set(files)
    loaded = type(trainer.model).from_pretrained(tmp_path / "out")
    assert torch.equal(logits(loaded, kind), logits(trainer.model, kind))


def test_the_tokenizer_of_the_collator_is_written_too(tmp_path: Path) -> None:
    transformers = hugging_face.load()
    words = hugging_face.tokenizer()
    collate = transformers.DataCollatorForLanguageModeling(words, mlm=False)
    samples = [dict(words(text)) for text in hugging_face.sentences()]
    model, _ = hugging_face.make("gpt2")
    trainer = make("gpt2", model, train=data.source(samples, collate_fn=collate))
    trainer.fit()
    assert "tokenizer.json" in save_pretrained(trainer, tmp_path / "out")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again("the cat sat")["input_ids"] == words("the cat sat")["input_ids"]
    named = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits(named, "gpt2"), logits(trainer.model, "gpt2"))


def test_wrong_use(tmp_path: Path) -> None:
    plain = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    other = Trainer(
        plain, loss=torch.nn.functional.mse_loss, optimizer=optimizer, train=(torch.ones(4, 2), torch.ones(4, 1)), epochs=1
    )
    with pytest.raises(DescriptionError, match=r"Linear has no save_pretrained\(\)"):
        save_pretrained(other, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    with pytest.raises(DescriptionError, match="full is there already, and is not an empty folder"):
        save_pretrained(make("vit"), tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


# --- LoRA


def adapted(base_seed: int = 3) -> Any:
    peft = pytest.importorskip("peft")
    model, _ = hugging_face.make("gpt2", dropout=0.1)
    if base_seed != 3:
        with torch.no_grad():
            model.transformer.h[0].mlp.c_fc.weight.add_(1.0)
    model.config._name_or_path = f"tiny/gpt2-{base_seed}"
    torch.manual_seed(0)
    options = {"target_modules": ["c_attn"], "task_type": "CAUSAL_LM", "fan_in_fan_out": True}
    return peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=4, lora_dropout=0.1, **options))


def test_lora_keeps_and_resumes_the_adapter_alone(tmp_path: Path) -> None:
    whole = make("gpt2", adapted(), epochs=3, update_cycle=2)
    whole.fit()
    for stop in (2, 4, None):
        trainer = make("gpt2", adapted(), epochs=3, update_cycle=2, folder=tmp_path, save_frozen=False, checkpoint_every=1)
        for update in trainer.updates():
            if update.step == stop:
                break
    assert trainer.resumed_from == 5
    ours, theirs = trainer.model.state_dict(), whole.model.state_dict()
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]
    from safetensors import safe_open

    for path in tmp_path.glob("checkpoints/*/model.safetensors"):
        with safe_open(path, "pt") as file:
            assert all("lora_" in name for name in file.keys())  # noqa: SIM118  # it is no mapping
    assert "of tiny/gpt2-3: the script makes them again" in " ".join(str(trainer).split())
    loaded = adapted()
    load_model(loaded, tmp_path)
    assert torch.equal(logits(loaded, "gpt2"), logits(trainer.model, "gpt2"))
    with pytest.raises(CheckpointError, match=r"The base was 'tiny/gpt2-3', this model's is 'tiny/gpt2-9'\. Make the model from"):
        load_model(adapted(9), tmp_path)


def test_an_adapter_is_written_and_goes_onto_its_base(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    trainer = make("gpt2", adapted())
    trainer.fit()
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(save_pretrained(trainer, tmp_path / "out"))
    base, _ = hugging_face.make("gpt2")
    loaded = peft.PeftModel.from_pretrained(base, tmp_path / "out")
    assert torch.equal(logits(loaded, "gpt2"), logits(trainer.model, "gpt2"))


# --- The command

FILE = """
import sys

sys.path.insert(0, {tests!r})
import hugging_face
import torch

from instep import Trainer, data


def build(lr: float = 0.01, lora: bool = False) -> Trainer:
    transformers = hugging_face.load()
    model, _ = hugging_face.make("gpt2", dropout=0.1)
    if lora:
        import peft

        config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, config)
    words = hugging_face.tokenizer()
    samples = [dict(words(text)) for text in hugging_face.sentences()]
    collate = transformers.DataCollatorForLanguageModeling(words, mlm=False)
    return Trainer(
        model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=lr),
        train=data.source(samples, collate_fn=collate),
        valid=0.2,
        metrics="perplexity",
        epochs=2,
        batch_size=4,
    )
"""


def command(*arguments: str) -> tuple[int, str, str]:
    from instep.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = hugging_face.load()
    monkeypatch.chdir(tmp_path)
    Path("lm.py").write_text(FILE.format(tests=str(Path(hugging_face.__file__).parent)))
    assert command("train", "lm.py")[0] == 0
    code, out, err = command("export", "runs/lm", "--to", "hf", "models/lm")
    assert code == 0, err
    said = " ".join(out.split())
    assert said.startswith("wrote models/lm: runs/lm at step ")
    assert said.endswith("load it with GPT2LMHeadModel.from_pretrained('models/lm')")
    assert "tokenizer.json" in said
    model = transformers.AutoModelForCausalLM.from_pretrained("models/lm")
    words = transformers.AutoTokenizer.from_pretrained("models/lm")
    prompt = words("the cat", return_tensors="pt")
    made = model.generate(**{name: prompt[name] for name in ("input_ids", "attention_mask")}, max_new_tokens=3, do_sample=False)
    assert made.shape[1] > prompt["input_ids"].shape[1]
    code, _, err = command("export", "runs/lm", "--to", "hf", "models/lm")
    assert (code, "models/lm is there already" in " ".join(err.split())) == (2, True)
    code, _, err = command("export", "runs/lm", "a", "-o", "b")
    assert (code, "a and -o b both say where to write" in " ".join(err.split())) == (2, True)
    assert command("train", "lm.py", "--lora", "--folder", "runs/lora")[0] == 0
    code, out, err = command("export", "runs/lora", "--to", "hf", "models/lora")
    assert code == 0, err
    assert " ".join(out.split()).endswith("load it with PeftModelForCausalLM.from_pretrained(base_model, 'models/lora')")
