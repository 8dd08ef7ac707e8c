"""Remedies: fixes that can be applied in memory while a script runs a second time. Its files stay as they are.

A remedy is a function that is given a `Fix` and wraps what of torch it has to change; it goes by what happens (an input that
comes from a softmax) or by the line that the finding names. `Fix.count` says how often it acted. The functions stand in one
file an area; the table here is read without torch.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from instep.doctor.sites import Locator


@dataclass
class Fix:
    """One finding, and what its fix does in this process."""

    id: str
    where: str | None
    evidence: Mapping[str, Any]
    locator: Locator
    measures_only: bool = False  # the right loss is noted, and the script goes on with its own
    note: Callable[[Any], None] = lambda _: None  # hears of losses by the right formula
    count: int = 0  # how often it acted
    places: tuple[str, ...] = ()  # other lines of the same cause
    elsewhere: int = 0  # how often that which it changes was called from other lines

    def is_here(self) -> bool:
        """Whether a line of the finding is the one that is running."""
        here = self.where is None or self.locator.site(2) in (self.where, *self.places)
        self.elsewhere += not here
        return here

    def choose(self, wrong: Callable[[], Any], right: Callable[[], Any]) -> Any:
        """The loss that the script goes on with, where a remedy has another one for it."""
        self.count += 1
        value = right()
        if value.requires_grad:
            self.note(value.detach())
        return wrong() if self.measures_only else value


@dataclass(frozen=True)
class Remedy:
    """What is changed, in words, and by which function."""

    words: str
    function: str  # "area:name"
    shows: Literal["training", "evaluation", "both"] = "training"  # where its effect is to be looked for
    other_formula: bool = False  # the loss becomes another number: the script as it is must be measured by that one too

    def apply(self, fix: Fix) -> None:
        area, _, name = self.function.partition(":")
        function: Callable[[Fix], None] = getattr(importlib.import_module(f"{__name__}.{area}"), name)
        function(fix)


_CLIP = "gradients:clip_before_step"
REMEDIES = {
    "softmax-before-cross-entropy": Remedy(
        "the softmax (or sigmoid) before the loss is taken out", "losses:take_out_softmax", other_formula=True
    ),
    "sigmoid-before-bce-logits": Remedy(
        "the sigmoid before the loss is taken out", "losses:take_out_sigmoid", other_formula=True
    ),
    "nll-on-unnormalised": Remedy("log-probabilities go into the loss", "losses:normalise", other_formula=True),
    "kl-on-probabilities": Remedy(
        "logarithms of the probabilities go into the loss", "losses:take_logarithms", other_formula=True
    ),
    "loss-broadcast": Remedy("the target gets the shape of the prediction", "losses:shape_target", other_formula=True),
    "padding-in-loss": Remedy("the padding is ignored by the loss", "losses:ignore_padding", other_formula=True),
    "accumulation-not-divided": Remedy("each loss is divided by the number of backwards a step", "gradients:divide"),
    "missing-zero-grad": Remedy("gradients that a step has used are cleared before the next backward", "gradients:clear"),
    "zero-grad-before-step": Remedy("gradients are cleared after the step, not before it", "gradients:clear_later"),
    "step-before-backward": Remedy("the step comes after the backward", "gradients:step_later"),
    "clip-after-step": Remedy("gradients are clipped before the step, from the second one on", _CLIP),
    "clip-of-partial-cycle": Remedy("gradients are clipped once, before the step", _CLIP),
    "clip-before-unscale": Remedy("gradients are clipped when they are unscaled, before the step", _CLIP),
    "evaluated-in-train-mode": Remedy("the evaluation runs in eval mode", "modes:evaluate", shows="evaluation"),
    "trained-in-eval-mode": Remedy("the training runs in train mode", "modes:train", shows="both"),
    "dropout-in-eval": Remedy("dropout follows the mode of its module", "modes:follow", shows="evaluation"),
    "frozen-batchnorm-moves": Remedy("BatchNorm of frozen layers stays in eval mode", "modes:freeze_batchnorm", shows="both"),
    "batch-first": Remedy("the layer takes the other dimension as the batch", "modes:switch_batch_first"),
    "schedule-wrong-unit": Remedy("the schedule is stepped in the other unit", "schedules:change_unit"),
    "scheduler-before-optimizer": Remedy(
        "the schedule is not stepped before the first step of the optimizer", "schedules:wait_for_optimizer"
    ),
    "lambda-absolute-lr": Remedy("the function of LambdaLR is divided by the learning rate", "schedules:divide_by_rate"),
    "plateau-wrong-sign": Remedy("ReduceLROnPlateau waits for the other direction", "schedules:turn_round"),
    "not-shuffled": Remedy("the training samples are shuffled", "data:shuffle", shows="both"),
    "sampler-epoch-not-set": Remedy("set_epoch() is called at the start of each pass", "data:set_epochs", shows="both"),
    "same-batch-every-step": Remedy("the loader goes on to its next batch", "data:go_on", shows="both"),
}
