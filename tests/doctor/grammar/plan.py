"""Plans: what a script is made of. Drawn from a seed, so that they go together; a mutation may ask for some of the choices."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Wants = Mapping[str, Sequence[object]]  # field -> the choices that are allowed

BODIES: Mapping[str, Sequence[str]] = {
    "rows": ("mlp", "mlp-norm", "mlp-dropout", "mlp-layernorm", "residual", "functional-dropout"),
    "images": ("cnn", "cnn-group"),
    "sequence": ("lstm", "gru-time", "encoder", "conv"),
    "tokens": ("bag", "mean", "gru", "encoder"),
    "text": ("causal", "gru", "attention"),
    "autoencoder": ("plain", "denoise", "vae"),
}
HEADS: Mapping[str, Sequence[str]] = {
    "rows": ("classes", "binary", "values"),
    "images": ("classes", "binary", "values"),
    "sequence": ("classes", "binary", "values"),
    "tokens": ("classes", "binary"),
    "text": ("text",),
    "autoencoder": ("same",),
}
LOSSES: Mapping[str, Sequence[str]] = {
    "classes": ("ce", "smooth", "weighted", "nll", "ignore", "soft", "by-hand", "margin", "focal", "kl"),
    "binary": ("bce-logits", "pos-weight", "bce", "soft-margin"),
    "values": ("mse", "huber", "smooth-l1", "l1", "by-hand", "gaussian"),
    "text": ("flat", "transposed", "padded"),
    "same": ("mse",),
}
WITH_BATCHNORM = frozenset({"mlp-norm", "cnn"})
WITH_DROPOUT = frozenset({"mlp-dropout", "functional-dropout", "residual", "encoder", "causal"})
WITH_PARTS = frozenset({"rows", "images"})  # have `model.body` and `model.head`
OPTIMIZERS = (
    "sgd", "momentum", "nesterov", "adam", "adamw", "amsgrad", "fused-adam", "fused-sgd", "foreach", "rmsprop", "adagrad",
    "nadam", "decay-groups", "head-group", "two", "hand", "closure", "lbfgs", "own",
)  # fmt: skip
PLAIN = OPTIMIZERS[:12]  # one optimizer of torch's, over all parameters
BY_EPOCH = ("step", "cosine", "exponential", "multistep", "lambda-epoch")
BY_BATCH = ("cosine-batch", "onecycle", "warmup", "linear", "sequential")
SCHEDULES = ("none", "none", *BY_EPOCH, *BY_BATCH, "plateau", "hand")
DATA = ("loader", "loader", "dataset", "sampler", "split", "batches", "inline", "iterable", "random", "stream")
LOADERS = frozenset({"loader", "dataset", "sampler", "split"})  # a DataLoader of known length
CLEARS = ("top", "before-backward", "after-step", "model", "in-place", "none-by-hand", "zero-by-hand")
VALIDS = ("none", "no-grad", "inference", "decorated", "whole")
STYLES = ("flat", "functions", "closures", "class")
ENDINGS = ("well", "well", "well", "exit-0", "exit-5", "raises")


@dataclass
class Plan:
    """The choices of one script. `mutation` is the name of the one mistake in it; "" in a right one."""

    seed: int
    mutation: str = ""
    kind: str = "rows"
    body: str = "mlp"
    head: str = "classes"
    loss: str = "ce"
    tied: bool = False
    optimizer: str = "sgd"
    schedule: str = "none"
    data: str = "loader"
    ragged: bool = False  # the last batch of an epoch is smaller
    clear: str = "top"
    valid: str = "none"
    style: str = "flat"
    amp: bool = False
    cycle: int = 1  # backwards of a step
    clip: str = "none"
    ema: str = "none"
    checkpoint: str = "none"
    freeze: str = "none"
    ending: str = "well"
    epochs: int = 8
    batches: int = 8  # full ones of an epoch
    batch: int = 8

    @property
    def has_batchnorm(self) -> bool:
        return self.body in WITH_BATCHNORM

    @property
    def has_dropout(self) -> bool:
        return self.body in WITH_DROPOUT

    @property
    def updates(self) -> int:
        """Steps of an epoch."""
        return -(-(self.batches + self.ragged) // self.cycle)


def draw(seed: int, mutation: str = "", wants: Wants | None = None) -> Plan:
    """The plan of a seed, with the choices that a mutation wants."""
    generator = random.Random(seed * 7919 + 13)
    wanted = wants or {}
    plan = Plan(seed, mutation)

    def choose(name: str, options: Sequence[object], *, weight: int = 1) -> None:
        """One of the options that are wanted; the first stands for "without", and is as likely as `weight` others."""
        allowed = [option for option in options if option in wanted.get(name, options)]
        if not allowed:
            raise ValueError(f"{mutation} wants {name} in {list(wanted[name])}, but {list(options)} go with {plan}")
        setattr(plan, name, generator.choice([*[allowed[0]] * (weight - 1), *allowed]))

    heads = {kind: [head for head in HEADS[kind] if head in wanted.get("head", HEADS[kind])] for kind in HEADS}
    bodies = {kind: [body for body in BODIES[kind] if body in wanted.get("body", BODIES[kind])] for kind in BODIES}
    choose("kind", [kind for kind in BODIES if heads[kind] and bodies[kind]])
    choose("body", bodies[plan.kind])
    choose("head", heads[plan.kind])
    choose("loss", LOSSES[plan.head])
    choose("tied", (False, True) if plan.body in ("causal", "attention") else (False,))
    choose("optimizer", _optimizers(plan))
    choose("epochs", (5, 6, 8, 10))
    choose("batches", (6, 8, 10, 12, 24))
    choose("batch", (6, 8, 12))
    choose("data", [name for name in DATA if name != "dataset" or plan.kind in ("rows", "images", "sequence")])
    choose("ragged", (False, True) if plan.data in {*LOADERS, "batches", "inline"} else (False,))
    simple = plan.optimizer not in ("hand", "closure", "lbfgs", "two")
    stepped = plan.optimizer not in ("hand", "lbfgs", "two")
    schedules = SCHEDULES if stepped else ("none",)
    choose("valid", VALIDS)
    choose("cycle", (1, 2, 4) if simple else (1,), weight=3)
    choose("schedule", [name for name in schedules if name != "plateau" or plan.valid != "none"])
    choose("clear", _clears(plan, simple))
    choose("style", STYLES)
    choose("amp", (False, True) if plan.kind in WITH_PARTS and plan.optimizer != "lbfgs" else (False,), weight=3)
    choose("clip", ("none", "norm", "value") if plan.optimizer != "lbfgs" else ("none",))
    choose("freeze", _freezes(plan), weight=3)
    choose("ema", _averages(plan, simple), weight=4)
    choose("checkpoint", _checkpoints(plan, simple))
    choose("ending", ENDINGS)
    return plan


def _optimizers(plan: Plan) -> Sequence[str]:
    """Two optimizers need two parts; LBFGS goes astray on batches where the model is more than a small one."""
    without = {"head-group", "two"} if plan.kind not in WITH_PARTS else set()
    return [name for name in OPTIMIZERS if name not in without and (name != "lbfgs" or plan.body in ("mlp", "plain"))]


def _clears(plan: Plan, simple: bool) -> Sequence[str]:
    if plan.optimizer == "hand":
        return ("none-by-hand", "zero-by-hand", "model")
    if not simple:
        return ("top",)
    return ("after-step", "in-place", "none-by-hand", "zero-by-hand") if plan.cycle > 1 else CLEARS


def _freezes(plan: Plan) -> Sequence[str]:
    if plan.kind not in WITH_PARTS or plan.optimizer not in PLAIN:
        return ("none",)
    moves = plan.clear in ("in-place", "zero-by-hand")  # what is left of a gradient goes on moving what is frozen
    later = () if moves and plan.mutation != "frozen-moves" else ("later",)
    return ("none", "start", *later, *(("thaw",) if plan.schedule in ("none", "hand") else ()))


def _averages(plan: Plan, simple: bool) -> Sequence[str]:
    if not simple or plan.valid == "none" or plan.freeze != "none" or plan.body == "vae":
        return ("none",)
    return ("none", "copy", "averaged")


def _checkpoints(plan: Plan, simple: bool) -> Sequence[str]:
    best = ("best", "best-file") if plan.valid != "none" else ()
    resume = ("resume",) if simple and plan.style != "class" and plan.ema == "none" and plan.freeze == "none" else ()
    return ("none", "save", *best, *resume)
