"""The catalogue: every id that the doctor knows, with its title, family and severity; the pages that explain them.

Nothing here imports torch: `instep doctor --list` and `--explain` read it.
"""

import textwrap
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

DOCS = "docs/doctor.md"
FAMILIES = ("gradients", "schedule", "modes", "losses", "data", "ownership", "precision", "distributed", "checkpoints")
SECTIONS = ("What", "Why it matters", "Wrong", "Right", "When it is fine", "Try it")


@dataclass(frozen=True)
class Entry:
    """One id of the catalogue."""

    id: str
    family: str
    severity: Literal["error", "warning", "hint"]  # the most that a finding of it can be
    title: str

    @property
    def link(self) -> str:
        return f"{DOCS}#{self.id}"

    @property
    def page(self) -> str:
        """The explanation, in Markdown; empty where none is written."""
        path = files("instep.doctor") / "pages" / f"{self.id}.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    @property
    def experiment(self) -> tuple[str, str]:
        """A few lines that show it, and what they print."""
        parts = self.page.partition("\n## Try it\n")[2].split("```")
        return (parts[1].removeprefix("python\n"), parts[3].removeprefix("text\n")) if len(parts) == 5 else ("", "")

    @property
    def why(self) -> str:
        """Why it matters, in one paragraph: that section of the page."""
        return " ".join(self.page.partition("## Why it matters\n")[2].partition("\n## ")[0].split())

    @property
    def fix(self) -> str:
        """The change to make, from the head of the page; empty where it depends on what was seen, and the rule says it."""
        head = self.page.partition("\n## ")[0]
        return textwrap.dedent(head.partition("\nFix:\n")[2]).strip("\n")


def _entries(family: str, lines: str) -> list[Entry]:
    found = []
    for line in lines.strip().splitlines():
        id, severity, title = line.split(maxsplit=2)
        found.append(Entry(id, family, severity, title))  # type: ignore[arg-type]
    return found


_ALL = [
    *_entries(
        "gradients",
        """
graph-kept                warning  losses are kept together with their graphs
clip-after-step           error    gradients are clipped after the step that used them
clip-of-nothing           error    clipping is given no gradients
clip-of-partial-cycle     warning  gradients are clipped inside the accumulation
missing-zero-grad         error    steps use gradients that were already used
accumulation-not-divided  warning  accumulated losses are means and are not divided
gradients-discarded       error    gradients are cleared before any step used them
accumulation-tail         warning  the last accumulation of an epoch is lost, leaks or is divided by too much
detached-loss             error    backward starts at a tensor without a graph
foreign-gradients         error    a step uses gradients of another optimizer's loss
zero-grad-before-step     error    gradients are cleared between backward and step
step-before-backward      error    the step comes before backward
graph-retained            warning  retain_graph keeps old graphs alive
non-finite                error    a loss or gradient is inf or nan
exploding-updates         hint     updates are large next to the weights
vanishing-updates         hint     updates are tiny next to the weights
diverging-loss            warning  the loss has grown far above its minimum
""",
    ),
    *_entries(
        "schedule",
        """
scheduler-before-optimizer  error    the scheduler steps before the optimizer
schedule-wrong-unit         warning  the schedule counts batches where epochs were meant, or the other way round
one-cycle-max-lr            hint     OneCycleLR's max_lr is not above the optimizer's lr
plateau-wrong-sign          warning  ReduceLROnPlateau waits for the wrong direction
lambda-absolute-lr          warning  LambdaLR returns a learning rate where a factor is expected
optimizer-recreated         warning  the optimizer is made anew and loses its state
lr-overwritten-by-load      hint     load_state_dict replaced the learning rate
""",
    ),
    *_entries(
        "modes",
        """
evaluated-in-train-mode   warning  the model is evaluated in train mode
trained-in-eval-mode      warning  the model is trained in eval mode
evaluated-with-grad       warning  evaluation records graphs that nobody uses
dropout-in-eval           error    dropout is active in eval mode
frozen-batchnorm-moves    warning  BatchNorm of frozen layers still updates its statistics
averaged-batchnorm-stale  warning  averaged weights are evaluated with statistics that are not theirs
norm-before-first-forward warning  spectral or weight norm is evaluated before its first training forward
batchnorm-of-one          warning  BatchNorm trains on batches of one sample
dropout-extreme           error    dropout drops all, or nearly all
""",
    ),
    *_entries(
        "losses",
        """
softmax-before-cross-entropy  error    cross-entropy is fed probabilities
sigmoid-before-bce-logits     error    BCE with logits is fed probabilities
loss-broadcast                error    prediction and target have other shapes and are broadcast
padding-in-loss               warning  padding counts in the loss
softmax-wrong-dim             warning  softmax runs over the batch
nll-on-unnormalised           error    NLL loss is fed something other than log-probabilities
single-class-loss             error    cross-entropy has one class only
constant-loss                 error    the loss never changes and gives no gradient
targets-out-of-range          error    targets lie outside the range of the loss
kl-on-probabilities           error    KL divergence is fed probabilities where it wants their logarithms
metric-broadcast              warning  predictions and labels are compared over each other
loss-summed                   hint     the loss is a sum over the batch
ragged-mean                   hint     a mean of batch means counts a small last batch like a full one
""",
    ),
    *_entries(
        "data",
        """
batch-mixed                 error    samples of a batch influence each other
train-valid-overlap         error    training and validation share samples
not-shuffled                warning  training data come in a fixed order
augmented-validation        error    validation data change from one reading to the next
repeated-worker-randomness  warning  loader workers repeat the same random numbers
future-leaks                error    outputs depend on later positions
batch-first                 error    a recurrent layer takes the batch for time
inputs-not-scaled           hint     inputs are not scaled
same-batch-every-step       error    every step trains on the same batch
no-seed                     hint     no seed is set
""",
    ),
    *_entries(
        "ownership",
        """
unregistered-module       error    a layer is not registered in its model
parameter-not-optimized   error    parameters get gradients and are in no optimizer
stale-optimizer           error    the optimizer holds parameters that the model no longer has
dead-parameter            warning  parameters in the optimizer never get a gradient
nothing-trainable         error    nothing can be trained
frozen-parameter-moves    error    frozen parameters still move
requires-grad-typo        error    requires_grad is misspelt
layer-shared-by-accident  hint     one layer stands in several places
weights-not-tied          warning  weights that began equal drift apart
symmetric-weights         warning  units of a layer begin with equal weights
leaf-written-in-place     hint     parameters are written outside of the optimizer
teacher-shares-weights    error    teacher and student are the same weights
""",
    ),
    *_entries(
        "precision",
        """
clip-before-unscale     error    gradients are clipped while they are still scaled
fp16-without-scaler     warning  float16 is trained without a GradScaler
update-below-precision  warning  updates are lost in rounding
""",
    ),
    *_entries(
        "distributed",
        """
sampler-epoch-not-set  error  DistributedSampler repeats the same order every epoch
ddp-bypassed           error  the forward goes past DistributedDataParallel
ranks-diverge          error  the processes train different weights
""",
    ),
    *_entries(
        "checkpoints",
        """
best-weights-aliased  error    the kept best weights are the live ones
silent-partial-load   error    load_state_dict left most of the model as it was
whole-model-pickled   hint     a whole model is pickled
""",
    ),
]
CATALOGUE = {entry.id: entry for entry in _ALL}
