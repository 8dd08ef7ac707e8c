"""Names of other libraries that are asked for less often: all the rest of Lightning's Trainer, transformers' TrainingArguments,
Keras's compile and fit, and fastai's Learner. docs/coming-from.md has the same as a table. Loaded where an argument is not known.
"""

_OPTIMIZER = "optimizer=torch.optim.AdamW(model.parameters(), lr=…)"
_OWN_LOOP = "a loop of your own: for update in trainer.updates(): …"
_FEWER = "an evaluation takes every sample once; pass fewer as"
_MODEL = "a setting of the model: change it before the Trainer is made"
_OWN_DATALOADER = "chosen by itself; a DataLoader as train= keeps its own"
_NOWHERE = "nothing is sent anywhere; push the model yourself after the run"
_RANK_0 = "rank 0 speaks and writes, and every update is in a row of the history"
_GRADIENTS = "processes exchange gradients once an update, whatever was used"

# What goes behind "use".
MORE_CALLED_HERE = {
    # Lightning
    "limit_test_batches": "fewer samples as test=",
    "limit_predict_batches": "trainer.predict() with fewer samples",
    "overfit_batches": "fewer samples as train=, like (x[:64], y[:64])",
    "enable_checkpointing": "folder= and checkpoint_every=; without a folder nothing is written",
    "enable_model_summary": "print(trainer), or trainer.plan()",
    "gradient_clip_algorithm": "clip_norm= or clip_value=",
    "profiler": "instep bench, or torch.profiler around a loop over trainer.updates()",
    "detect_anomaly": 'on_nonfinite="stop", which names the step and the samples, or torch.autograd.set_detect_anomaly(True)',
    "reload_dataloaders_every_n_epochs": "train=data.source(…, sampler=…), a function of the epoch",
    "model_registry": "instep.save_model(trainer.model, path)",
    # transformers
    **dict.fromkeys(("adam_beta1", "adam_beta2", "adam_epsilon", "optim_args", "wd", "optimizer_cls_and_kwargs"), _OPTIMIZER),
    "optim_target_modules": "optimizer=, with instep.param_groups(model, {part: options})",
    "lr_scheduler_kwargs": "schedule=, like instep.OneCycle(max_lr=…) or instep.schedules",
    "label_smoothing_factor": "loss=torch.nn.CrossEntropyLoss(label_smoothing=…)",
    "auto_find_batch_size": 'on_out_of_memory="split", or trainer.find_batch_size()',
    "logging_strategy": "log_every=",
    "include_num_input_tokens_seen": "update.count in a loop of your own, and trainer.log(…)",
    **dict.fromkeys(
        ("run_name", "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"),
        'loggers="wandb" or another name, or an object with options, like instep.integrations.wandb',
    ),
    **dict.fromkeys(
        (
            "prediction_loss_only",
            "include_for_metrics",
            "batch_eval_metrics",
            "eval_do_concat_batches",
            "eval_use_gather_object",
            "eval_accumulation_steps",
            "preprocess_logits_for_metrics",
            "weighted_metrics",
        ),
        "metrics=, functions f(output, target) that add up batch by batch",
    ),
    "save_only_model": "instep.save_model(trainer.model, path); a checkpoint can always be resumed",
    "full_determinism": "deterministic=True",
    "data_seed": "seed=, which decides everything random",
    "use_cpu": 'device="cpu"',
    **dict.fromkeys(("accelerator_config", "parallelism_config", "deepspeed", "fsdp_config"), "shard=True, for FSDP2"),
    "dataloader_drop_last": "drop_last=",
    **dict.fromkeys(("remove_unused_columns", "label_names"), "train=data.source(…, target=…)"),
    **dict.fromkeys(
        ("train_sampling_strategy", "length_column_name", "group_by_length"),
        "train=data.source(…, bucket_by=…) for batches of similar lengths, or sampler=",
    ),
    "ddp_timeout": "timeout_s=",
    "debug": "doctor=True, which watches the run for mistakes",
    "do_train": "trainer.fit()",
    "do_eval": "trainer.evaluate()",
    "do_predict": "trainer.predict()",
    "local_rank": "trainer.rank; torchrun sets it",
    "compute_loss_func": "objective=, a function (model, batch) -> Loss, or loss=",
    # Keras
    "loss_weights": "objective=, a function that returns Loss(a + 0.3 * b, count)",
    **dict.fromkeys(("run_eagerly", "jit_compile"), "compile=True or False"),
    "auto_scale_loss": 'precision="fp16", which has a scaler',
    "initial_epoch": "folder=; a run in it goes on where it stopped",
    "validation_steps": "fewer samples as valid=",
    "validation_freq": 'evaluate_every="epoch", "2 epochs" or a number of updates',
    # fastai
    "splitter": "optimizer=, with instep.param_groups(model, lr=…, layer_decay=0.8)",
    "wd_bn_bias": "optimizer=, with instep.param_groups(model, no_decay=True)",
    "train_bn": "instep.freeze(model, …) before the Trainer is made",
    "moms": "schedule=instep.OneCycle(max_lr=…, momentum=(0.85, 0.95))",
    "default_cbs": _OWN_LOOP,
    **dict.fromkeys(("path", "model_dir"), "folder="),
}

# Sentences of their own.
MORE_NOT_HERE = {
    # Lightning
    **dict.fromkeys(("min_epochs", "min_steps"), "only patience= ends a run early, so a larger one is a minimum"),
    "max_time": "a result does not depend on the clock; stop the run by SIGTERM and start it again, it goes on where it stopped",
    "num_sanity_val_steps": "a few samples of the validation data always go through before the first update",
    "benchmark": "set torch.backends.cudnn.benchmark in your file",
    "inference_mode": "evaluations run under torch.no_grad()",
    "use_distributed_sampler": "processes share out the batches by themselves",
    "barebones": "what a feature costs is paid only where it is used",
    "plugins": "there is no interface for plugins",
    "enable_autolog_hparams": "run.json has every argument",
    # transformers
    "average_tokens_across_devices": "micro-batches and processes are always weighted by what they count",
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval"), "evaluations compute as training does"),
    "tf32": 'call torch.set_float32_matmul_precision("high") in your file',
    "gradient_checkpointing_kwargs": "the model does that itself: torch.utils.checkpoint",
    **dict.fromkeys(("torch_compile_backend", "torch_compile_mode"), "call torch.compile(model, …) before the Trainer is made"),
    **dict.fromkeys(("use_liger_kernel", "liger_kernel_config", "use_cache", "neftune_noise_alpha"), f"that is {_MODEL}"),
    "torch_empty_cache_steps": f"that belongs into {_OWN_LOOP}",
    **dict.fromkeys(
        (
            "logging_first_step",
            "logging_nan_inf_filter",
            "log_on_each_node",
            "log_level",
            "log_level_replica",
            "save_on_each_node",
        ),
        _RANK_0,
    ),
    **dict.fromkeys(("eval_delay", "eval_on_start"), "call trainer.evaluate() when you want one, in a loop of your own too"),
    "enable_jit_checkpoint": "SIGTERM finishes the update, saves and ends; the same command goes on",
    **dict.fromkeys(
        (
            "push_to_hub",
            "hub_token",
            "hub_private_repo",
            "hub_model_id",
            "hub_strategy",
            "hub_always_push",
            "hub_revision",
        ),
        _NOWHERE,
    ),
    "ignore_data_skip": "no batch is skipped when a run is resumed: it begins at its place",
    "restore_callback_states_from_checkpoint": "there are no callbacks; state of models, losses and objectives is kept by itself",
    **dict.fromkeys(
        (
            "dataloader_pin_memory",
            "dataloader_persistent_workers",
            "dataloader_prefetch_factor",
            "dataloader_multiprocessing_context",
            "dataloader_in_order",
        ),
        f"that is {_OWN_DATALOADER}",
    ),
    **dict.fromkeys(
        ("ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph"),
        _GRADIENTS,
    ),
    "ddp_backend": "NCCL on CUDA, Gloo on a CPU; a process group that you have made is used",
    "skip_memory_metrics": "the history has memory_bytes, and reading it waits for nobody",
    # Keras
    "steps_per_execution": "an update is one call, and losses stay on the device until a row of the log is due",
    "validation_batch_size": "evaluations take batches as large as the largest micro-batch; a DataLoader as valid= keeps its own",
}

# Methods of fastai's Learner.
MORE_METHODS = {
    **dict.fromkeys(
        ("add_cb", "add_cbs", "remove_cb", "remove_cbs", "added_cbs", "removed_cbs", "ordered_cbs"), f"use {_OWN_LOOP}"
    ),
    **dict.fromkeys(("all_batches", "one_batch", "show_training_loop"), f"use {_OWN_LOOP}"),
    "create_opt": f"use {_OPTIMIZER}",
    "validation_context": "use instep.evaluating(model)",
    "get_preds": "use predict()",
    "tta": "use predict() several times, on data.source(…, transform=…)",
    "show_results": "use instep.preview(trainer), or instep report --samples",
    "loss_not_reduced": "use instep report --samples, which has the loss of single samples",
    **dict.fromkeys(("no_logging", "no_mbar", "no_bar"), "use progress=False"),
    "to_detach": "use predict(), whose outputs are on the CPU and have no graph",
    "export": "use instep export RUN",
    **dict.fromkeys(("freeze", "freeze_to", "unfreeze"), "use instep.freeze(model, …) and unfreeze_at="),
    **dict.fromkeys(("to_channelslast", "to_contiguous"), "use model.to(memory_format=…) before the Trainer is made"),
    **dict.fromkeys(("to_fp16", "to_bf16", "to_fp32", "to_non_native_fp16"), 'use precision="bf16", "fp16" or "fp32"'),
    "summary": "use print(trainer)",
    "fit_flat_cos": "use schedule=instep.schedules.WSD(…)",
    "fit_sgdr": "use schedule=instep.schedules.WarmRestarts(…)",
    "fine_tune": 'use instep.freeze(model, "base") and unfreeze_at={1: "base"}',
    "gather_args": "use run.json in folder=, which has every argument",
}
