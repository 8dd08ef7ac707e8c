"""Names that people know from earlier versions and from other libraries, and what each is here."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from instep.data.data_source import MOVED_FROM_TRAINER
from instep.errors import DescriptionError
from instep.text import nearest

Method = TypeVar("Method", bound=Callable[..., Any])

_OPTIMIZER = "optimizer=torch.optim.AdamW(model.parameters(), lr=…)"
_UPDATE_CYCLE = "update_cycle= (batch_size counts the whole update)"
_EVALUATE_EVERY = 'evaluate_every="epoch", "2 epochs" or a number of updates'
_SAVE_EVERY = 'checkpoint_every="epoch", "10 minutes" or a number of updates'
_OWN_LOOP = "a loop of your own: for update in trainer.updates(): …"
_LOGGERS = 'loggers="tensorboard", "mlflow", "wandb", "trackio" or "csv", or an object of your own'
_PROCESSES = "torchrun, or instep train --processes"

# What goes behind "use".
CALLED_HERE = {
    **MOVED_FROM_TRAINER,
    "workers": "num_workers=",
    "every": "update_every=",
    "on_overflow": "on_out_of_memory=",
    "channels_last": "model.to(memory_format=torch.channels_last) before the Trainer is made",
    "average": "ema=",
    **dict.fromkeys(("lr", "learning_rate", "opt_func", "optimizer_cls", "optimizer_params"), _OPTIMIZER),
    **dict.fromkeys(("callbacks", "callback", "cbs", "on_epoch_end"), _OWN_LOOP),
    **dict.fromkeys(("max_epochs", "num_epochs", "num_train_epochs", "n_epochs", "nb_epochs", "n_epoch"), "epochs="),
    **dict.fromkeys(("num_steps", "max_iter", "max_iters", "limit_train_batches"), "max_steps="),
    **dict.fromkeys(("bs", "train_batch_size"), "batch_size="),
    "per_device_train_batch_size": "batch_size= (of all devices together; micro_batch_size= is what one takes at once)",
    **dict.fromkeys(
        ("accumulate_grad_batches", "gradient_accumulation_steps", "accumulation_steps", "grad_accum_steps", "grad_accum"),
        _UPDATE_CYCLE,
    ),
    "gradient_clip_val": "clip_norm= (or clip_value=)",
    **dict.fromkeys(("max_grad_norm", "grad_clip", "clip_grad_norm", "gradient_clip", "clip_grad"), "clip_norm="),
    **dict.fromkeys(
        ("train_dataloader", "train_dataloaders", "train_loader", "train_dataset", "train_data", "train_dl", "train_ds", "dls"),
        "train=",
    ),
    **dict.fromkeys(("data", "dataset", "dataloader", "loader", "datamodule"), "train= (and valid=)"),
    **dict.fromkeys(("x", "X", "y", "inputs", "targets", "labels"), "train=(x, y)"),
    **dict.fromkeys(("val", "val_dataloader", "val_dataloaders", "val_loader", "val_data", "val_dataset", "val_dl"), "valid="),
    **dict.fromkeys(("valid_loader", "valid_data", "valid_dataset", "valid_dl", "valid_ds", "validation"), "valid="),
    **dict.fromkeys(("validation_data", "eval_dataset", "eval_data", "eval_dataloader", "eval_loader"), "valid="),
    "validation_split": "valid=, a share like 0.1",
    **dict.fromkeys(("test_loader", "test_dataloader", "test_dataset", "test_data"), "test="),
    "dataloader_num_workers": "num_workers=",
    "data_collator": MOVED_FROM_TRAINER["collate_fn"],
    **dict.fromkeys(("eval_every", "eval_steps", "eval_strategy", "evaluation_strategy", "val_check_interval"), _EVALUATE_EVERY),
    "check_val_every_n_epoch": 'evaluate_every="2 epochs"',
    **dict.fromkeys(("metric", "compute_metrics"), 'metrics="accuracy", or a function f(output, target)'),
    "metric_for_best_model": 'monitor="valid/…"',
    **dict.fromkeys(("greater_is_better", "mode"), 'monitor_mode="max" or "min"'),
    "load_best_model_at_end": "restore_best=",
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "patience="),
    **dict.fromkeys(("criterion", "loss_fn", "loss_function", "loss_func"), "loss="),
    "class_weight": 'class_weights="balanced", or one weight a class',
    "label_smoothing": "loss=torch.nn.CrossEntropyLoss(label_smoothing=…)",
    "sample_weight": "objective=, a function (model, batch) -> Loss, or train=data.source(…, sampler=instep.data.weighted(…))",
    **dict.fromkeys(("scheduler", "lr_scheduler", "lr_scheduler_type"), "schedule="),
    **dict.fromkeys(("warmup", "warmup_steps", "warmup_ratio"), "schedule=, like instep.OneCycle(max_lr=…) or instep.schedules"),
    **dict.fromkeys(("optimizers", "optim", "opt"), "optimizer="),
    "weight_decay": "optimizer=torch.optim.AdamW(model.parameters(), weight_decay=…)",
    **dict.fromkeys(("swa_start", "swa_epoch_start"), "swa=, the epoch from which on the weights are averaged"),
    **dict.fromkeys(("ema_decay", "use_ema", "ema_model"), "ema=, like 0.999"),
    **dict.fromkeys(("checkpoint_dir", "default_root_dir", "output_dir", "save_dir", "log_dir", "logging_dir"), "folder="),
    **dict.fromkeys(("save_every", "save_steps", "save_strategy"), _SAVE_EVERY),
    "save_total_limit": "keep=",
    "save_top_k": "keep_best=",
    **dict.fromkeys(("logging_steps", "log_every_n_steps"), "log_every="),
    **dict.fromkeys(("logger", "report_to", "tensorboard", "wandb", "mlflow", "use_wandb", "log_with"), _LOGGERS),
    **dict.fromkeys(("verbose", "enable_progress_bar", "disable_tqdm"), "progress=, True or False"),
    "fast_dev_run": "trainer.dry_run(), or instep train FILE.py --dry-run",
    **dict.fromkeys(("accelerator", "cuda", "use_cuda", "gpu"), "device="),
    **dict.fromkeys(("devices", "gpus", "num_gpus", "n_gpu", "num_nodes", "strategy", "ddp", "distributed"), _PROCESSES),
    "fsdp": "shard=True",
    "fp16": 'precision="fp16"',
    **dict.fromkeys(("bf16", "mixed_precision", "use_amp", "amp"), 'precision="bf16"'),
    "torch_compile": "compile=True",
    **dict.fromkeys(("random_state", "manual_seed", "random_seed"), "seed="),
    "model_init": "model=",
}

# Sentences of their own.
NOT_HERE = {
    "batched_fetch": "a data set that has __getitems__ is read by it",
    "on_checkpoint_error": "a checkpoint that cannot be written stops the run, and the one before it is kept",
    "processes": "torchrun, or instep train --processes, says how many there are",
    "shuffle": "training data is shuffled each epoch; data.source(…, sampler=) says otherwise",
    "resume": "a run in folder= is resumed by itself",
    "resume_from_checkpoint": "a run in folder= is resumed by itself; init= begins with the weights of another",
    "ckpt_path": "a run in folder= is resumed by itself; init= begins with the weights of another",
    **dict.fromkeys(
        ("per_device_eval_batch_size", "eval_batch_size", "valid_batch_size"),
        "evaluations take batches as large as the largest micro-batch; a DataLoader as valid= keeps its own",
    ),
    "limit_val_batches": "an evaluation takes every sample once; pass fewer as valid=",
    "args": "every setting is an argument of the Trainer itself",
    **dict.fromkeys(("tokenizer", "processing_class"), "samples are tokenized before; data.source(…, collate_fn=) makes batches"),
    "gradient_checkpointing": "the model does that itself: torch.utils.checkpoint",
}

# Methods and attributes of a Trainer.
METHODS = {
    "train": "use fit()",
    "validate": "use evaluate()",
    "eval": "use evaluate()",
    "test": 'use evaluate("test")',
    "score": "use evaluate()",
    **dict.fromkeys(
        ("save_checkpoint", "save", "save_model", "save_weights"),
        "checkpoints are written to folder= by themselves; instep.save_model(trainer.model, path) writes the weights alone",
    ),
    **dict.fromkeys(("load_checkpoint", "load_model", "load_weights", "restore"), 'use load("best"), load("latest") or a step'),
    "resume": "fit() resumes the run in folder= by itself",
    **dict.fromkeys(("lr_find", "tune"), "use find_lr()"),
    "scale_batch_size": "use find_batch_size()",
    "fit_one_cycle": "use Trainer(…, schedule=instep.OneCycle(max_lr=…)) and fit()",
    **dict.fromkeys(("add_callback", "callbacks"), "use a loop of your own: for update in trainer.updates(): …"),
    **dict.fromkeys(("global_step", "current_step"), "use step"),
    **dict.fromkeys(("current_epoch", "epoch"), "use step // steps_per_epoch"),
    **dict.fromkeys(("callback_metrics", "logged_metrics", "metrics"), "use history.last and history.best"),
    "state_dict": "use trainer.model.state_dict(); checkpoints are written to folder= by themselves",
    "parameters": "use trainer.model.parameters()",
    "predict_proba": "use predict(data).softmax(1)",
}


def refuse_unknown(names: Collection[str], known: Collection[str], who: str = "Trainer") -> None:
    """Raises for arguments that a Trainer does not have, with the name that each has here."""
    for name in names:
        advice = _advice(name, known) or f"there are {', '.join(known)}."
        raise DescriptionError(f"{who} has no argument {name}=; {advice}")


def _advice(name: str, known: Collection[str]) -> str | None:
    """What to write in place of an argument; None where it is like nothing."""
    from instep.run.names_elsewhere import MORE_CALLED_HERE, MORE_NOT_HERE  # a run that is described right needs none of it

    called_here, not_here = CALLED_HERE | MORE_CALLED_HERE, NOT_HERE | MORE_NOT_HERE
    if name not in not_here and name not in called_here:
        if guess := nearest(name, known):
            return f"did you mean {guess}=?"
        name = nearest(name, [*CALLED_HERE, *NOT_HERE]) or nearest(name, [*called_here, *not_here]) or ""
        if not name:
            return None
    return f"{not_here[name]}." if name in not_here else f"use {called_here[name]}."


def explain_missing(name: str, trainer: type) -> str:
    """Why a Trainer lacks an attribute: what is used here in its place."""
    from instep.run.names_elsewhere import MORE_METHODS

    methods = METHODS | MORE_METHODS
    if name in methods:
        return f"a Trainer has no {name}; {methods[name]}."
    guess = None if name.startswith("_") else nearest(name, [one for one in dir(trainer) if not one.startswith("_")])
    call = "()" if guess and callable(getattr(trainer, guess)) else ""
    return f"a Trainer has no {name}; did you mean {guess}{call}?" if guess else f"a Trainer has no {name}."


def without_arguments(method: Method) -> Method:
    """A method that takes arguments only to refuse them, shown as one that takes none. Wrapped, it would be two calls."""
    signature = inspect.signature(method)
    own = next(iter(signature.parameters.values()))
    method.__signature__ = signature.replace(parameters=[own])  # type: ignore[attr-defined]
    return method


def refuse_arguments(method: str, given: Collection[Any], named: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises for arguments of a method that takes none; what the Trainer has under these names (`known`) is said."""
    if given or named:
        raise TypeError(f"{method}() takes no {_belongs(given, named, known)}")


def _belongs(given: Collection[Any], named: Mapping[str, Any], known: Collection[str]) -> str:
    if given:
        return "data; pass it to the Trainer: train=, valid=."
    name = next(iter(named))
    if name in known:
        return f"{name}=; pass it to the Trainer: Trainer(…, {name}=…)."
    here = CALLED_HERE.get(name)
    return f"{name}=; {f'the Trainer has {here}' if here else 'it takes no arguments'}."
