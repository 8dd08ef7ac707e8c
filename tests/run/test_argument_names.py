"""Names that people know from other libraries: each gets the name here, or what to do in its place."""

import inspect
import re
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from instep import Trainer
from instep.errors import DescriptionError
from instep.run.argument_names import CALLED_HERE, METHODS, NOT_HERE
from instep.run.names_elsewhere import MORE_CALLED_HERE, MORE_METHODS, MORE_NOT_HERE
from tiny import mlp

ELSEWHERE = """
per_device_train_batch_size per_device_eval_batch_size train_batch_size eval_batch_size bs eval_steps eval_strategy
evaluation_strategy save_strategy save_steps logging_steps logging_dir compute_metrics data_collator load_best_model_at_end
metric_for_best_model greater_is_better resume_from_checkpoint resume ckpt_path warmup_steps warmup_ratio lr_scheduler_type
dataloader_num_workers ema_decay use_ema enable_progress_bar disable_tqdm fast_dev_run limit_train_batches limit_val_batches
logger strategy report_to mlflow use_wandb log_with valid_data valid_dl train_dl valid_dataset val_dataset verbose class_weight
sample_weight loss_func opt_func optim opt save_dir output_dir val_check_interval check_val_every_n_epoch metric args tokenizer
model_init gradient_checkpointing gpus num_gpus num_nodes amp tensorboard wandb clip_grad_norm ema_model on_epoch_end
optimizer_cls optimizer_params mode torch_compile ddp distributed cuda x y X data dataset dataloader loader label_smoothing
"""


def make(**arguments: Any) -> Trainer:
    model = mlp()
    x, y = torch.randn(8, 6), torch.randint(4, (8,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, **{"optimizer": optimizer, "train": (x, y), "loss": cross_entropy, "progress": False, **arguments})


@pytest.mark.parametrize("name", ELSEWHERE.split())
def test_a_name_from_elsewhere_gets_the_one_here(name: str) -> None:
    with pytest.raises(DescriptionError, match=rf"Trainer has no argument {name}=; ") as caught:
        make(**{name: 1})
    assert "there are" not in str(caught.value)


def test_what_is_advised_exists() -> None:
    """Each `name=` and each method that a hint names is one of this library."""
    known = {*inspect.signature(Trainer).parameters, "transform", "batch_transform", "collate_fn", "sampler", "target"}
    known |= {"steps_per_epoch", "lr", "weight_decay", "memory_format", "weight", "label_smoothing", "max_lr", "monitor_mode"}
    known |= {"bucket_by", "layer_decay", "no_decay", "momentum"}
    every = CALLED_HERE | NOT_HERE | METHODS | MORE_CALLED_HERE | MORE_NOT_HERE | MORE_METHODS
    for name, advice in every.items():
        used = set(re.findall(r"(\w+)=", advice)) - {"pos_weight"}
        assert used <= known, (name, used - known)
        for method in re.findall(r"trainer\.(\w+)", advice):
            assert hasattr(Trainer, method), (name, method)
    assert not {*CALLED_HERE, *NOT_HERE, *METHODS} & {*MORE_CALLED_HERE, *MORE_NOT_HERE, *MORE_METHODS}
    assert not known & {*CALLED_HERE, *MORE_CALLED_HERE} & {*inspect.signature(Trainer).parameters}


def test_a_misspelt_name_gets_the_nearest() -> None:
    for wrong, right in {"epoch": "epochs", "bach_size": "batch_size", "optimiser": "optimizer", "metics": "metrics"}.items():
        with pytest.raises(DescriptionError, match=rf"no argument {wrong}=; did you mean {right}=\?"):
            make(**{wrong: 1})


def test_a_misspelt_name_from_elsewhere_gets_the_one_here() -> None:
    with pytest.raises(DescriptionError, match=r"no argument max_epoch=; use epochs=\."):
        make(max_epoch=1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("train", "use fit()"),
        ("validate", "use evaluate()"),
        ("test", 'use evaluate("test")'),
        ("save_checkpoint", "folder="),
        ("lr_find", "use find_lr()"),
        ("evalute", "did you mean evaluate()?"),
        ("global_step", "use step"),
    ],
)
def test_a_method_of_another_library_is_named_by_the_one_here(name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=rf"a Trainer has no {name}; ") as caught:
        getattr(make(epochs=1), name)
    assert advice in str(caught.value)


def test_an_attribute_that_is_like_nothing_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"a Trainer has no xyzzy\.$"):
        make(epochs=1).xyzzy  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(make(epochs=1), "__array__")


def test_fit_takes_nothing_and_says_where_it_belongs() -> None:
    fit: Any = make(epochs=1).fit
    with pytest.raises(TypeError, match=r"fit\(\) takes no data; pass it to the Trainer: train=, valid=\."):
        fit([1])
    with pytest.raises(TypeError, match=r"fit\(\) takes no epochs=; pass it to the Trainer: Trainer\(…, epochs=…\)\."):
        fit(epochs=3)
    with pytest.raises(TypeError, match=r"fit\(\) takes no max_epochs=; the Trainer has epochs=\."):
        fit(max_epochs=3)
    with pytest.raises(TypeError, match=r"fit\(\) takes no xyzzy=; it takes no arguments\."):
        fit(xyzzy=3)
    assert list(inspect.signature(Trainer.fit).parameters) == ["self"]
