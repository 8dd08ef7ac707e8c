"""The last block of a network: what it hands on, nobody takes, as there is no next one."""

from collections.abc import Mapping

from instep.doctor.scopes import MethodPlace
from instep.doctor.watch.gradients import Parameter


def is_of_last(dead: Parameter, known: Mapping[int, Parameter], places: Mapping[int, MethodPlace]) -> bool:
    """Whether a parameter without a gradient is that of the last block, in which other parameters get theirs.

    Its layer is called at one place of a method, as are layers of the same shape in other modules, all of which are trained.
    `known` are the parameters of its optimizer, `places` where the layer of each is called, in the order of the first calls.
    """
    mine = places.get(dead.key)
    if mine is None:
        return False
    like = [place for key, place in places.items() if place[:2] == mine[:2] and key in known and known[key].shape == dead.shape]
    others = {place for place in like if place.owner != mine.owner}
    trained = {places[key] for key, parameter in known.items() if parameter.arrivals and key in places}
    is_last = like[-1].owner == mine.owner
    return is_last and bool(others) and others <= trained and any(place.owner == mine.owner for place in trained)
