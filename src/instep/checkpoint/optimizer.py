"""The state of an optimizer: taken as it is, and assigned as it was.

`Optimizer.load_state_dict` casts state to the dtype of its parameter, so float32 moments of a bfloat16 model come back rounded.
Here tensors are assigned with the dtype and the strides that they had. Parameters go by the names they have in the model.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from instep.errors import CheckpointError
from instep.text import listed, plural

Named = Iterable[tuple[str, Tensor]]


def capture_optimizer(optimizer: Optimizer, named_parameters: Named = ()) -> dict[str, Any]:
    """State and options of an optimizer as a part of a checkpoint; the tensors are the optimizer's own, not copies.

    >>> model = torch.nn.Linear(4, 3)
    >>> captured = capture_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    >>> captured["groups"][0]["parameters"], captured["groups"][0]["options"]["lr"]
    (['weight', 'bias'], 0.1)
    """
    if _brings_its_own(optimizer):
        return {"kind": _kind(optimizer), "own": optimizer.state_dict()}
    names = _names(optimizer, named_parameters)
    entries: dict[Any, dict[Any, Any]] = dict(optimizer.state)  # keys that are no parameters are allowed, if rare
    state = {key: entry for key, entry in entries.items() if isinstance(key, Tensor)}
    _refuse_strange_state(optimizer, state, names)
    return {
        "kind": _kind(optimizer),
        "groups": [
            {
                "parameters": [names[parameter] for parameter in group["params"]],
                "options": {key: value for key, value in group.items() if key != "params"},
            }
            for group in optimizer.param_groups
        ],
        "forms": {name: [list(parameter.shape), parameter.dtype] for parameter, name in names.items()},
        "state": {names[parameter]: dict(entry) for parameter, entry in state.items()},
        "on_host": {names[parameter]: kept for parameter, entry in state.items() if (kept := _on_host(parameter, entry))},
        "other": {key: entry for key, entry in entries.items() if not isinstance(key, Tensor)},
    }


def restore_optimizer(
    optimizer: Optimizer, captured: Mapping[str, Any], named_parameters: Named = (), *, leave: Collection[str] = ()
) -> None:
    """Give an optimizer the state and the options that were captured; it takes the tensors over.

    Its groups must hold the same parameters in the same order. Options named in `leave`, like lr, keep the value they have now.
    Where an error is raised, nothing was changed.
    """
    _require_captured(captured)
    if captured["kind"] != _kind(optimizer):
        raise CheckpointError(
            f"the checkpoint holds the state of {captured['kind']}, and the optimizer is {_kind(optimizer)}; use the same one."
        )
    if "own" in captured:
        optimizer.load_state_dict(captured["own"])
        return
    names = _names(optimizer, named_parameters)
    _require_same_groups(optimizer, names, captured["groups"])
    _require_same_forms(names, captured)
    for group, before in zip(optimizer.param_groups, captured["groups"], strict=True):
        _restore_options(group, before["options"], leave)
    state: dict[Any, dict[Any, Any]] = optimizer.state
    state.clear()
    state.update(captured["other"])
    for group in optimizer.param_groups:
        # Adam and its kin count steps on the host unless they are told otherwise, wherever the parameter is.
        counts_on_host = not (group.get("capturable") or group.get("fused"))
        for parameter in group["params"]:
            if names[parameter] in captured["state"]:
                host = {*captured["on_host"].get(names[parameter], ()), *(["step"] if counts_on_host else [])}
                state[parameter] = _placed(captured["state"][names[parameter]], parameter.device, host)


def _brings_its_own(optimizer: Optimizer) -> bool:
    """An optimizer of another make, with a state_dict of its own: it knows best what its state is."""
    kind = type(optimizer)
    return kind.state_dict is not Optimizer.state_dict or kind.load_state_dict is not Optimizer.load_state_dict


def _kind(optimizer: Optimizer) -> str:
    return type(optimizer).__qualname__


def _names(optimizer: Optimizer, named_parameters: Named) -> dict[Tensor, str]:
    """Each parameter's name in the model, or its number among the optimizer's."""
    given = {parameter: name for name, parameter in reversed(list(named_parameters))}  # the first name of a tied one wins
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {parameter: given.get(parameter, f"#{number}") for number, parameter in enumerate(parameters)}


def _on_host(parameter: Tensor, entry: Mapping[str, Any]) -> list[str]:
    """The state that is kept on the host though its parameter is not."""
    if parameter.device.type == "cpu":
        return []
    return [key for key, value in entry.items() if isinstance(value, Tensor) and value.device.type == "cpu"]


def _refuse_strange_state(optimizer: Optimizer, state: Mapping[Tensor, Any], names: Mapping[Tensor, str]) -> None:
    memory = {parameter.data_ptr(): name for parameter, name in names.items() if parameter.data_ptr()}  # 0: it has none
    for parameter, entry in state.items():
        if parameter not in names:
            raise CheckpointError(
                f"{_kind(optimizer)} holds state of a parameter of shape {tuple(parameter.shape)} that is in none of its groups; "
                "delete it from optimizer.state."
            )
        for what, value in entry.items():
            if isinstance(value, Tensor) and value.data_ptr() in memory:
                raise CheckpointError(
                    f"{_kind(optimizer)}: state {what!r} of {names[parameter]!r} is the memory of the parameter "
                    f"{memory[value.data_ptr()]!r} itself, which a checkpoint cannot keep; make it a clone()."
                )


def _require_captured(captured: Any) -> None:
    """What is read from a file may be anything."""
    whole = isinstance(captured, Mapping) and isinstance(captured.get("kind"), str)
    if whole and "own" not in captured:
        whole = (
            isinstance(captured.get("groups"), list)
            and all(isinstance(captured.get(key), dict) for key in ("forms", "state", "on_host", "other"))
            and all(isinstance(form, list) and len(form) == 2 for form in captured["forms"].values())
            and all(isinstance(entry, dict) for entry in captured["state"].values())
            and all(isinstance(entry, list) for entry in captured["on_host"].values())
            and all(
                isinstance(group, dict) and isinstance(group.get("parameters"), list) and isinstance(group.get("options"), dict)
                for group in captured["groups"]
            )
        )
    if not whole:
        raise CheckpointError("this part of the checkpoint does not hold the state of an optimizer.")


def _require_same_groups(optimizer: Optimizer, names: Mapping[Tensor, str], before: list[Any]) -> None:
    if len(optimizer.param_groups) != len(before):
        raise CheckpointError(
            f"the optimizer has {plural(len(optimizer.param_groups), 'parameter group')}, in the checkpoint it has "
            f"{len(before)}; make the groups as they were."
        )
    for number, (group, kept) in enumerate(zip(optimizer.param_groups, before, strict=True)):
        now, then = [names[parameter] for parameter in group["params"]], kept["parameters"]
        missing, new = [name for name in then if name not in now], [name for name in now if name not in then]
        told = [f"{word} {listed(some)}" for word, some in (("lacks", missing), ("also has", new)) if some]
        if told:
            raise CheckpointError(f"parameter group {number} is not that of the checkpoint: it {' and '.join(told)}.")
        if now != then:
            first = next(index for index, (one, other) in enumerate(zip(now, then, strict=True)) if one != other)
            raise CheckpointError(
                f"parameter group {number} has another order than in the checkpoint: number {first} is {now[first]}, "
                f"and was {then[first]}; pass the parameters in the same order."
            )


def _require_same_forms(names: Mapping[Tensor, str], captured: Mapping[str, Any]) -> None:
    for parameter, name in names.items():
        shape, dtype = captured["forms"].get(name, (None, None))
        if list(parameter.shape) != shape or parameter.dtype != dtype:
            raise CheckpointError(
                f"parameter {name!r} is {parameter.dtype} of shape {list(parameter.shape)}; "
                f"in the checkpoint it is {dtype} of shape {shape}."
            )
    strangers = set(captured["state"]) - set(names.values())
    if strangers:
        raise CheckpointError(f"the checkpoint holds state of {listed(sorted(map(str, strangers)))}, which no group has.")


def _restore_options(group: dict[str, Any], before: Mapping[str, Any], leave: Collection[str]) -> None:
    for key in [key for key in group if key != "params" and key not in leave and key not in before]:
        del group[key]
    for key, value in before.items():
        if key not in leave and key != "params":
            group[key] = _renewed(group.get(key), value)


def _renewed(now: Any, then: Any) -> Any:
    """An option's value. A tensor, like an lr that a compiled step reads, stays the tensor it is and gets the value."""
    if isinstance(now, Tensor) and isinstance(then, Tensor) and (now.shape, now.dtype) == (then.shape, then.dtype):
        with torch.no_grad():
            return now.copy_(then)
    if isinstance(now, tuple) and isinstance(then, tuple) and len(now) == len(then):
        return tuple(_renewed(one, other) for one, other in zip(now, then, strict=True))
    return then


def _placed(entry: Mapping[str, Any], device: torch.device, host: Collection[str]) -> dict[str, Any]:
    """A parameter's state beside the parameter, but for what belongs on the host."""
    return {key: value if key in host else _moved(value, device) for key, value in entry.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [_moved(item, device) for item in value]
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
