"""Which steps are watched: the first all, later ones in bursts that become rare, so that a long run costs next to nothing.

While it rests, the doctor counts steps and batches and hears of what is rare: passes over loaders, modes that change, schedulers,
optimizers, checkpoints. Forwards, losses, backwards and clips it does not hear then. Anything rare wakes it for a few steps.

It rests by counts alone, never by a clock: two runs of one program are watched at the same steps, on any machine.
"""

from typing import Any

from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.loaders import Pass, first_tensor

FIRST = 128  # steps that are watched without rest
BURST = 8  # steps of a burst
HALVED_UNTIL = 200  # steps, half of which are watched after the first: many runs are no longer
EVERY = 1024  # steps from one burst to the next; the first of them comes after half as many
EARLY = 256  # and one before it: many runs are no longer
SPARE, SHARE = 40, 0.025  # steps, and the share of all, that may be watched because something rare woke it
# Multiplications in the forwards of a step beyond which it is large: on one core of a CPU 1e8 of them take 10 ms or more with
# their backward. A run has fewer of such steps, and what watching one costs shows less: more of them are watched.
LARGE = 1e8
EVERY_LARGE, SHARE_LARGE = 128, 0.2
COUNTED = 16  # steps whose multiplications are counted
CALLS = 128  # root calls without a step after which it rests, as in a long evaluation
# A new phase, as fine-tuning after pretraining, may be wrong where the first was right: so many steps of so many phases.
PHASE, PHASES = 64, 8
RATES = 3  # learning rates far above all before, with each of which a phase begins
NEW = 16  # loaders, and modules whose mode is set, that appear during a rest and are watched however much was watched before


class StepSampling:
    """Decides when the doctor rests: sets `hub.resting` and tells `on_rest()` and `on_wake()`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._until = FIRST
        self._watched = 0
        self._phases = 0
        self._rates = 0
        self._new = 0
        self._calls = 0
        self._modes: dict[int, bool] = {}
        self._uncalled: set[int] = set()  # modules that were put into eval mode again before they were ever called
        self._roots = trace.part(Calls).roots
        self._multiplications = 0  # in the steps that are counted
        self._every, self._share = EVERY, SHARE
        self._parameters = trace.part(Gradients).parameters
        self._trainable: dict[int, bool] = {}  # parameter -> whether it required a gradient at the last look

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Module: self._module_called}

    def before_call(self, call: Call) -> None:
        if self._trace.steps < COUNTED and call.grad:
            call.closely = True

    def _module_called(self, module: nn.Module, _: Any, output: Any, call: Call) -> None:
        if self._trace.steps < COUNTED and call.grad:
            self._multiplications += multiplications(module, output)

    def after_step(self, _: Any) -> None:
        """While awake; asleep, only `on_alarm` comes."""
        steps = self._trace.steps
        self._watched += 1
        self._calls = 0
        if steps == FIRST and self._multiplications > LARGE * COUNTED:
            self._every, self._share = EVERY_LARGE, SHARE_LARGE
        if steps >= self._until:
            self._rest(steps)

    def after_call(self, _: Any) -> None:
        self._calls += 1
        if self._calls > CALLS and self._trace.steps >= FIRST:
            self._calls = 0
            self._rest(self._trace.steps)

    def on_alarm(self) -> None:
        steps = self._trace.steps
        if steps == self._next_burst(steps - 1):
            self._watched -= BURST  # it comes beside what something rare may wake
            self._wake()
        else:
            self._hub.alarm = min(self._hub.alarm, self._next_burst(steps))

    def on_pass_begins(self, begun: Pass, *_: Any) -> None:
        if self._has_thawed():
            self._begin_phase()
        self._meet(begun.number == 1)  # the test set

    def on_pass_ends(self, *_: Any) -> None:
        self._stir()

    def on_optimizer(self, *_: Any) -> None:
        self._begin_phase()

    def on_phase(self) -> None:
        self._begin_phase()

    def on_higher_rate(self) -> None:
        if self._hub.resting and self._rates < RATES:
            self._rates += 1
            self._begin_phase()

    def on_compiles(self) -> None:
        """Awake, all hooks are on, and stay."""
        if self._hub.resting:
            self._wake()

    def after_optimizer_load(self, _: Called) -> None:
        self._begin_phase()

    def after_scheduler_init(self, _: Called) -> None:
        if self._hub.resting:
            self._begin_phase()

    def after_mode(self, called: Called) -> None:
        """People call train() in every step; only a change is rare."""
        key, mode = id(called.args[0]), bool(called.argument(1, "mode", True))
        known = self._modes.get(key)
        if known is not mode:
            if len(self._modes) > 256:
                self._modes.clear()
            self._modes[key] = mode
            self._meet(known is None)  # an average that is evaluated once, at the end
        elif not mode and self._hub.resting and key not in self._uncalled and self._is_uncalled(called.args[0]):
            self._uncalled.add(key)
            self._meet(True)

    def _is_uncalled(self, module: nn.Module) -> bool:
        """Whether a module has never been called by itself: a copy that has been in eval mode since it was made."""
        return len(self._uncalled) < NEW and not any(root.reference() is module for root in self._roots)

    def after_registered(self, _: Called) -> None:
        """A layer that is made while models train, or a weight that is replaced: perhaps a new head."""
        if self._hub.resting:
            self._meet(True)

    def _has_thawed(self) -> bool:
        """Whether parameters have been frozen, or set free, since the last pass over a loader began."""
        alive = [(key, parameter.reference()) for key, parameter in self._parameters.items()]
        now = {key: tensor.requires_grad for key, tensor in alive if tensor is not None}
        before, self._trainable = self._trainable, now
        return any(before.get(key, flag) is not flag for key, flag in now.items())

    def _begin_phase(self) -> None:
        """An optimizer is made, loaded, or trains something else. The first phases are watched beside the share of the others."""
        if self._phases == PHASES:
            self._stir()
            return
        self._phases += 1
        begin, end = self._trace.steps if self._hub.resting else self._until, self._trace.steps + PHASE
        if self._hub.resting:
            self._wake()
        if end > begin:
            self._watched -= end - begin
            self._until = end

    def _meet(self, is_new: bool) -> None:
        """What has not been seen before is watched, up to a number of things."""
        if is_new and self._hub.resting and self._new < NEW:
            self._new += 1
            self._wake()
        else:
            self._stir()

    def _stir(self) -> None:
        if self._hub.resting and self._watched < FIRST + SPARE + self._share * self._trace.steps:
            self._wake()

    def _wake(self) -> None:
        self._until = self._trace.steps + BURST
        self._calls = 0
        self._hub.resting = False
        self._hub.say("on_wake")

    def _rest(self, steps: int) -> None:
        self._hub.resting = True
        self._hub.alarm = self._next_burst(steps)
        self._hub.say("on_rest")

    def _next_burst(self, steps: int) -> int:
        """The first step after so many at which a burst begins."""
        if steps < HALVED_UNTIL - BURST:
            return (steps // (2 * BURST) + 1) * 2 * BURST
        half = self._every // 2
        following = ((steps + half) // self._every + 1) * self._every - half
        return min(EARLY, following) if steps < EARLY else following


def multiplications(module: nn.Module, output: Any) -> int:
    """About how many a module did itself to give this output, on a CPU; an accelerator does them in no time, and they count 0.

    A linear layer does `in_features` for each number that it gives, a convolution as many as its kernel has for one channel.
    """
    given = first_tensor(output)
    if given is None or given.device.type != "cpu":
        return 0
    weights = (weight for weight in module._parameters.values() if isinstance(weight, Tensor) and weight.dim() > 1)
    return given.numel() * sum(weight.numel() // max(len(weight), 1) for weight in weights)
