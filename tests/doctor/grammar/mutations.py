"""Mutations: one mistake each, by which id it must be named, and which scripts can have it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from doctor.grammar.plan import BODIES, BY_BATCH, BY_EPOCH, CLEARS, PLAIN, WITH_BATCHNORM, WITH_DROPOUT, Wants

MOVING = ("momentum", "nesterov", "adam", "adamw", "amsgrad", "fused-adam", "fused-sgd", "foreach", "nadam")
SIMPLE: Wants = {"optimizer": PLAIN, "freeze": ("none",), "cycle": (1,)}
JUDGED: Wants = {"valid": ("no-grad", "inference", "decorated", "whole")}
LOADED: Wants = {"valid": ("no-grad", "inference", "decorated")}
CYCLE: Wants = {"optimizer": PLAIN, "freeze": ("none",), "cycle": (2, 4), "ragged": (False,), "batches": (8, 12, 24)}
CALLED = {"clear": ("top", "after-step", "model", "in-place")}


@dataclass(frozen=True)
class Mutation:
    """A mistake. One of `ids` must be found, the others may be."""

    ids: tuple[str, ...]
    wants: Wants = field(default_factory=dict)


def _one(id: str, *wants: Wants) -> Mutation:
    merged: dict[str, object] = {}
    for each in wants:
        merged |= each
    return Mutation((id,), merged)  # type: ignore[arg-type]


_NETWORKS = tuple(body for bodies in BODIES.values() for body in bodies if body != "vae")
_BODY = {"kind": ("rows", "images")}
_CLASSES = {"head": ("classes",), "loss": ("ce", "smooth", "weighted", "ignore")}
_LOGITS = {"head": ("binary",), "loss": ("bce-logits", "pos-weight")}
_SQUARED = {"head": ("values",), "loss": ("mse", "huber", "smooth-l1", "l1", "by-hand")}
_MODES = {"body": tuple(WITH_BATCHNORM | WITH_DROPOUT)}

MUTATIONS: Mapping[str, Mutation] = {
    "no-clear": _one("missing-zero-grad", SIMPLE, {"clear": CLEARS}),
    "step-first": _one("step-before-backward", SIMPLE, {"clear": ("top", "model")}),
    "clear-between": _one("zero-grad-before-step", SIMPLE, {"clip": ("none", "norm")}),
    "clip-late": _one("clip-after-step", SIMPLE, {"clip": ("norm", "value"), "clear": ("top", "after-step")}),
    "clip-part": _one("clip-of-partial-cycle", CYCLE, {"clip": ("norm", "value")}),
    "clip-generator": _one("clip-of-nothing", SIMPLE, {"clip": ("norm",), "checkpoint": ("none", "save", "best")}),
    "undivided": _one(
        "accumulation-not-divided",
        CYCLE,
        {
            "kind": ("rows", "images", "sequence", "tokens", "text"),
            "loss": ("ce", "bce-logits", "mse", "flat", "huber"),
            "clip": ("none", "norm"),
        },
    ),
    "clear-each": _one("gradients-discarded", CYCLE, {"clear": ("after-step",)}),
    "tail": _one("accumulation-tail", CYCLE, {"cycle": (4,), "batches": (6, 10), "data": ("loader", "dataset", "split")}),
    "detached": _one("detached-loss", SIMPLE, {"clip": ("none",)}),
    "kept": _one("graph-kept", SIMPLE, {"batches": (12, 24)}),
    "retained": _one("graph-retained", SIMPLE),
    "schedule-first": _one("scheduler-before-optimizer", SIMPLE, {"schedule": (*BY_EPOCH, *BY_BATCH)}),
    "schedule-by-batch": _one(
        "schedule-wrong-unit", SIMPLE, JUDGED, {"schedule": ("step", "cosine", "multistep"), "epochs": (8, 10)}
    ),
    "schedule-by-epoch": _one("schedule-wrong-unit", SIMPLE, JUDGED, {"schedule": ("onecycle", "cosine-batch", "linear")}),
    "plateau-sign": _one(
        "plateau-wrong-sign",
        SIMPLE,
        JUDGED,
        {"schedule": ("plateau",), "kind": ("rows",), "head": ("classes",), "epochs": (10,), "batches": (24,)},
    ),
    "lambda-lr": _one("lambda-absolute-lr", SIMPLE, {"schedule": ("lambda-epoch",)}),
    "recreated": _one(
        "optimizer-recreated",
        SIMPLE,
        {
            "optimizer": MOVING,
            "schedule": ("none",),
            "checkpoint": ("none", "save", "best", "best-file"),
            "style": ("flat", "functions", "closures"),
        },
    ),
    "softmax-in-model": _one("softmax-before-cross-entropy", _CLASSES),
    "softmax-in-loop": _one("softmax-before-cross-entropy", _CLASSES),
    "sigmoid-in-model": _one("sigmoid-before-bce-logits", _LOGITS),
    "sigmoid-in-loop": _one("sigmoid-before-bce-logits", _LOGITS),
    "loss-broadcast": _one("loss-broadcast", _SQUARED),
    "loss-broadcast-column": _one("loss-broadcast", _SQUARED),
    "single-class": _one("single-class-loss", {"head": ("classes",), "loss": ("ce", "smooth")}),
    "nll-on-scores": _one("nll-on-unnormalised", {"head": ("classes",), "loss": ("nll",)}),
    "kl-on-p": _one("kl-on-probabilities", {"head": ("classes",), "loss": ("kl",)}),
    "targets-255": _one("targets-out-of-range", _LOGITS, {"kind": ("rows", "images", "sequence")}),
    "padding": _one("padding-in-loss", {"kind": ("text",), "loss": ("padded",)}),
    "softmax-over-batch": _one("softmax-wrong-dim", {"head": ("classes",), "loss": ("margin",)}),
    "metric-broadcast": _one("metric-broadcast", JUDGED, {"head": ("classes",)}),
    "no-eval": _one("evaluated-in-train-mode", JUDGED, _MODES, {"ema": ("none",)}),
    "no-train": _one("trained-in-eval-mode", JUDGED, _MODES, {"ema": ("none",), "freeze": ("none",)}),
    "no-no-grad": _one("evaluated-with-grad", JUDGED, {"ema": ("none", "averaged")}),
    "functional-dropout": _one("dropout-in-eval", JUDGED, {"body": ("functional-dropout",)}),
    "frozen-batchnorm": _one(
        "frozen-batchnorm-moves", {"body": ("mlp-norm", "cnn"), "freeze": ("start", "later"), "optimizer": PLAIN}
    ),
    "average-batchnorm": _one("averaged-batchnorm-stale", SIMPLE, JUDGED, {"body": ("mlp-norm", "cnn"), "ema": ("averaged",)}),
    "batch-of-one": _one("batchnorm-of-one", SIMPLE, {"body": ("cnn",), "data": ("loader",), "schedule": ("none",)}),
    "dropout-1": _one("dropout-extreme", {"head": ("classes", "binary", "values")}),
    "overlap": _one("train-valid-overlap", LOADED, {"data": ("loader", "sampler"), "kind": ("rows", "images", "sequence")}),
    "not-shuffled": _one(
        "not-shuffled",
        {"data": ("loader", "batches", "inline"), "head": ("classes",), "loss": ("ce", "smooth", "margin"), "batch": (8, 12)},
    ),
    "sampler-epoch": _one("sampler-epoch-not-set", {"data": ("sampler",)}),
    "same-batch": _one("same-batch-every-step", {"data": ("loader",), "ragged": (False,)}),
    "augmented-validation": _one("augmented-validation", LOADED, {"data": ("dataset",), "kind": ("rows", "images", "sequence")}),
    "leak": _one("future-leaks", {"kind": ("text",), "body": ("causal", "attention")}),
    "batch-first": _one("batch-first", {"kind": ("sequence",), "body": ("lstm", "gru-time"), "batch": (8, 12)}),
    "viewed": _one("batch-mixed", {"kind": ("sequence",), "body": ("gru-time",), "batch": (8, 12)}),
    "unregistered": _one("unregistered-module", {"body": ("residual",), "optimizer": PLAIN}),
    "head-forgotten": _one("parameter-not-optimized", _BODY, SIMPLE),
    "body-forgotten": _one("parameter-not-optimized", _BODY, SIMPLE),
    "stale": _one("stale-optimizer", _BODY, SIMPLE, {"checkpoint": ("none", "save", "best")}),
    "unused-layer": _one("dead-parameter", SIMPLE, {"head": ("classes", "binary", "values")}),
    "typo": _one("requires-grad-typo", _BODY, {"freeze": ("none",)}),
    "frozen-moves": _one(
        "frozen-parameter-moves",
        _BODY,
        {"freeze": ("later",), "clear": ("in-place", "zero-by-hand"), "optimizer": MOVING, "cycle": (1,)},
    ),
    "copied-weights": _one("weights-not-tied", {"kind": ("text",), "tied": (False,), "optimizer": PLAIN}),
    "zero-weights": _one("symmetric-weights", {"kind": ("rows",), "body": ("mlp", "mlp-dropout"), "optimizer": PLAIN}),
    "teacher": _one("teacher-shares-weights", JUDGED, SIMPLE, {"ema": ("copy",), "body": _NETWORKS}),
    "bfloat16": _one(
        "update-below-precision",
        {
            "kind": ("rows",),
            "optimizer": ("sgd",),
            "cycle": (1,),
            "amp": (False,),
            "freeze": ("none",),
            "loss": ("ce", "mse", "bce-logits"),
        },
    ),
    "huge-lr": Mutation(
        ("diverging-loss", "non-finite", "exploding-updates"),
        {
            "kind": ("rows",),
            "body": ("mlp",),
            "head": ("values",),
            "loss": ("mse",),
            "optimizer": ("sgd",),
            "clip": ("none",),
            "checkpoint": ("none", "save"),
            "schedule": ("none",),
            "cycle": (1,),
        },
    ),
    "best-aliased": _one("best-weights-aliased", JUDGED, {"checkpoint": ("best",)}),
    "partial-load": _one("silent-partial-load", {"checkpoint": ("none", "save", "best")}),
}
