"""Outputs of layers that nobody takes, on purpose: of the last block what a next one would get, of a network that hooks read."""

from collections.abc import Mapping

from torch import nn

from instep.doctor.scopes import MethodPlace
from instep.doctor.watch.gradients import Parameter


def why_unused(
    dead: Parameter, known: Mapping[int, Parameter], places: Mapping[int, MethodPlace], network: nn.Module | None
) -> str:
    """Why what the layer of a parameter without a gradient gives may be left alone on purpose; "" where nothing says so.

    `known` are the parameters of its optimizer, `places` where the layer of each is called, in the order of the first calls.
    """
    if _is_of_last(dead, known, places):
        return "what their layers give in the last block is not used, as it is in the others"
    if network is not None and _is_read_by_hooks(network):
        return "a forward hook reads the layers before them, and what they give is not used"
    return ""


def _is_of_last(dead: Parameter, known: Mapping[int, Parameter], places: Mapping[int, MethodPlace]) -> bool:
    """Whether a parameter without a gradient is that of the last block, in which other parameters get theirs.

    Its layer is called at one place of a method, as are layers of the same shape in other modules, all of which are trained."""
    mine = places.get(dead.key)
    if mine is None:
        return False
    like = [place for key, place in places.items() if place[:2] == mine[:2] and key in known and known[key].shape == dead.shape]
    others = {place for place in like if place.owner != mine.owner}
    trained = {places[key] for key, parameter in known.items() if parameter.arrivals and key in places}
    is_last = like[-1].owner == mine.owner
    return is_last and bool(others) and others <= trained and any(place.owner == mine.owner for place in trained)


def _is_read_by_hooks(network: nn.Module) -> bool:
    """Whether the user's own hooks take what layers inside a network give: then its last layers may run for nothing."""
    hooks = (hook for part in network.modules() for hook in part._forward_hooks.values())
    return any(not str(getattr(hook, "__module__", "")).startswith("instep.") for hook in hooks)
