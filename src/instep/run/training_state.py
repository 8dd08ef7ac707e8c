"""What a checkpoint keeps of a run: `capture` takes it, `restore` puts it back.

Where an optimizer has modes, a checkpoint's `model` holds the weights that are meant to be used, `training` those to go on from.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from instep.checkpoint import Checkpoint, capture_optimizer, restore_model, restore_optimizer
from instep.checkpoint.left_out import Described, FrozenWeights, require_same
from instep.errors import CheckpointError, DescriptionError
from instep.loop.holders import Holders
from instep.loop.stepper import Stepper
from instep.optim.averages import Averages
from instep.optim.train_eval import Modes
from instep.run.attributes import Attributes

if TYPE_CHECKING:
    from instep.run.run import Run

AVERAGED = "module."  # before the names of a model in the state of its average


def capture(run: "Run") -> Checkpoint:
    """The run as it stands between two updates: tensors, counters, and nothing that depends on the clock."""
    state = {
        "step": run.state.step,
        "monitor": None if run.monitor is None else run.monitor.state(),
        "players": [stepper.state() for stepper in run.steppers],
        "logbook": run.logbook.state(),
        "stream": run.loader.state,
        "standing": run.model_state.standing(),
        "cycles": None if run.state.cycles is None else run.state.cycles.state(),
        "finer_split": run.micro_batches.state(),
    }
    parts, left_out = run.model_state.parts(), run.model_state.left_out()
    if left_out is not None:
        state["left_out"] = left_out
    return Checkpoint(run.state.step, parts, state, run.state.best_step, kept=run.best_steps())


def restore(run: "Run", checkpoint: Checkpoint) -> None:
    """Put the run back to where it was when the checkpoint was saved."""
    state, cycles = checkpoint.state, run.state.cycles
    if cycles is not None:
        cycles.require_cycles(state.get("cycles"), state["step"])
    else:
        require_no_cycles(state.get("cycles"))
    run.unfreezing.reach((state["step"] - 1) // run.plan.steps_per_epoch)  # so that the optimizer has the groups it had
    run.model_state.restore(checkpoint.parts, leave=run.allow_changes, left_out=state.get("left_out"))
    for stepper, before in zip(run.steppers, state["players"], strict=True):
        stepper.restore(before)
    run.logbook.restore(state["logbook"])
    if run.monitor is not None and state["monitor"] is not None:
        run.monitor.restore(state["monitor"])
    run.micro_batches.restore(state.get("finer_split", {}))  # a checkpoint of an older version has none
    if cycles is not None:
        cycles.restore(state["cycles"])
    run.model_state.restore_standing(state["standing"])
    run.loader.resume(state["stream"])
    run.state.step = run.state.resumed_from = state["step"]
    run.state.best_step = checkpoint.best


def require_no_cycles(state: Mapping[str, Any] | None) -> None:
    """Raises where the checkpoint was written by fit_cycles()."""
    if state is not None:
        raise DescriptionError("this run is trained in cycles; go on with fit_cycles(), or make a new Trainer for fit().")


class ModelState:
    """The parts of a checkpoint that hold tensors: the model, the optimizers, averages, losses and attributes with a state."""

    def __init__(
        self,
        holders: Holders,
        steppers: Sequence[Stepper],
        *,
        modes: Modes,
        averages: Averages,
        attributes: Attributes,
        frozen: FrozenWeights | None = None,
    ) -> None:
        self.attributes = attributes
        self._frozen = frozen  # what a checkpoint leaves out, where that was asked for
        self._holders = holders
        self._model = holders.model
        self._steppers = steppers
        self._modes = modes
        self._averages = averages.by_name()

    @property
    def used(self) -> list[str]:
        """The parts that `use` takes."""
        return ["model", *self._averages]

    def parts(self) -> dict[str, Any]:
        """By the names that they have in a checkpoint; the tensors are the run's own where that is enough."""
        captured = {stepper.name: self._capture_optimizer(stepper) for stepper in self._steppers}
        parts: dict[str, Any] = {"model": self._model.state_dict(), "optimizer": captured.get("", captured)}
        if self._modes.any:
            with self._modes.evaluating():
                parts["model"] = _clone(self._model.state_dict())
            with self._modes.training():
                parts["training"] = _clone(self._model.state_dict())
        if unsaved := _unsaved_buffers(self._model):
            parts["buffers"] = unsaved
        parts |= {name: average.state_dict() for name, average in self._averages.items()}
        if self._frozen is not None:
            gone = set(self._frozen.names())
            for part, prefix in (("model", ""), ("training", ""), *((name, AVERAGED) for name in self._averages)):
                if part in parts:
                    parts[part] = _without(parts[part], {f"{prefix}{name}" for name in gone})
        if others := self._others():
            parts["others"] = others
        if changed := self.attributes.changed():
            parts["attributes"] = changed
        return parts

    def left_out(self) -> Described | None:
        """What `parts` leaves out of the model, and by what it is known again; None where all is there."""
        names = [] if self._frozen is None else self._frozen.names()
        return self._frozen.describe(names) if self._frozen is not None and names else None

    def buffers(self) -> list[Tensor]:
        """What is not the same on several processes while they train."""
        averaged = [buffer for average in self._averages.values() for buffer in average.module.buffers()]
        return [*(buffer for module in self._holders.modules for buffer in module.buffers()), *averaged]

    def standing(self) -> dict[str, Any]:
        """What somebody may have changed in a loop of their own: what takes no gradient, and what is in eval mode."""
        return {
            "frozen": [name for name, parameter in self._model.named_parameters() if not parameter.requires_grad],
            "eval": [name for name, module in self._model.named_modules() if not module.training],
        }

    def restore_standing(self, standing: Mapping[str, Any]) -> None:
        """Put the model as it stood."""
        frozen, in_eval = set(standing["frozen"]), set(standing["eval"])
        for name, parameter in self._model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for name, module in self._model.named_modules():
            module.training = name not in in_eval

    def restore(self, parts: Mapping[str, Any], *, leave: Collection[str], left_out: Described | None = None) -> None:
        """Go on from these parts; options of the optimizers that are named in `leave` keep the values they have now.

        Who leaves lr leaves what a schedule starts from.
        """
        leave = (*leave, "initial_lr") if "lr" in leave else leave
        absent = require_same(self._model, left_out)
        restore_model(self._model, parts.get("training", parts["model"]), left_out=absent)
        if self._frozen is not None:
            self._frozen.forget_writes()
        _restore_unsaved_buffers(self._model, parts.get("buffers", {}))
        self._restore_others(parts.get("others", {}))
        self.attributes.restore(parts.get("attributes", {}))
        for stepper in self._steppers:
            captured = parts["optimizer"][stepper.name] if stepper.name else parts["optimizer"]
            restore_optimizer(stepper.optimizer, captured, self._model.named_parameters(), leave=leave)
        self._modes.train()  # what was restored is the train mode's
        self._load_averages(parts, absent)

    def use(self, parts: Mapping[str, Any], left_out: Described | None = None) -> None:
        """Give the model, and the averages, the weights of these parts; the optimizers stay as they are."""
        absent = require_same(self._model, left_out)
        with self._modes.replacing():
            restore_model(self._model, parts["model"], left_out=absent)
        if self._frozen is not None:
            self._frozen.forget_writes()
        self._load_averages(parts, absent)

    def copy(self) -> dict[str, Any]:
        """What `use` takes, copied."""
        with self._modes.evaluating():
            parts: dict[str, Any] = {"model": copy.deepcopy(self._model.state_dict())}
        return parts | {name: _clone(average.state_dict()) for name, average in self._averages.items()}

    def stateful(self) -> list[Any]:
        """What an update changes beside the model and the first optimizer, for who puts it back."""
        others = [stepper.optimizer for stepper in self._steppers[1:]]
        own = [thing for stepper in self._steppers for thing in stepper.stateful()]
        return [*self._holders.beside, *self._holders.objects, *others, *own, self._modes, *self._averages.values()]

    def _capture_optimizer(self, stepper: Stepper) -> dict[str, Any]:
        """With the parameters in the order of the groups: the optimizer has those that were unfrozen last at the end."""
        captured = capture_optimizer(stepper.optimizer, self._model.named_parameters())
        names = [name for group in captured.get("groups", ()) for name in group["parameters"]]
        for kind in ("state", "on_host") if names else ():
            captured[kind] = {name: captured[kind][name] for name in names if name in captured[kind]}
        return captured

    def _others(self) -> dict[str, Any]:
        """Tensors outside the model that a run changes: further parameters of its optimizers, and losses with a state."""
        own = set(self._model.parameters())
        found: dict[str, Any] = {}
        for stepper in self._steppers:
            free = [p for group in stepper.optimizer.param_groups for p in group["params"] if p not in own]
            found |= {f"{stepper.name}/parameter {i}": p.detach() for i, p in enumerate(free)}
        for i, module in enumerate(self._holders.given):
            named = (*module.named_parameters(), *module.named_buffers())
            found |= {f"loss {i}/{name}": value.detach() for name, value in named}
        return found

    def _restore_others(self, kept: Mapping[str, Any]) -> None:
        now = self._others()
        if now.keys() != kept.keys():
            raise CheckpointError(
                f"the checkpoint has {', '.join(kept) or 'nothing'} beside the model, this run has {', '.join(now) or 'nothing'}."
            )
        for name, tensor in now.items():
            tensor.copy_(kept[name])

    def _load_averages(self, parts: Mapping[str, Any], absent: Collection[str] = ()) -> None:
        """An average of weights that never changed is these weights."""
        held = self._model.state_dict() if absent else {}
        for name, average in self._averages.items():
            if name in parts:
                average.load_state_dict({**parts[name], **{f"{AVERAGED}{key}": held[key] for key in absent}})


def _without(state: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in names}


def _clone(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value) for name, value in state.items()}


def _unsaved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Those that a module registers as not persistent: a state_dict leaves them out; resuming exactly needs them."""
    kept = model.state_dict(keep_vars=True)
    return {name: buffer for name, buffer in model.named_buffers() if name not in kept}


def _restore_unsaved_buffers(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """One that has another shape by now (a cache that grew) is replaced, the others get their values back."""
    for name, value in state.items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        now = module._buffers.get(last)
        if now is not None and now.shape == value.shape and now.dtype == value.dtype and now.is_contiguous():
            with torch.no_grad():
                now.copy_(value)
        else:
            module._buffers[last] = value.to(now.device) if now is not None else value
