"""Arrivals of gradients: since when a parameter gets them, or gets none, and whether its values have moved since.

Looked at only when the trace is about to be judged.
"""

from instep.doctor.bare_leaves import sample
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Parameter


class Arrivals:
    """What is remembered of parameters from one judgement to the next."""

    def __init__(self, trace: Trace, parameters: dict[int, Parameter]) -> None:
        self._trace, self._parameters = trace, parameters
        self._first: dict[int, tuple[Parameter, list[float]]] = {}  # values of parameters in no optimizer, when first seen
        self._changed: dict[int, tuple[Parameter, int, int]] = {}  # key -> (record, arrivals, backwards when they last grew)
        self._without: dict[int, tuple[Parameter, int, int]] = {}  # key -> (record, arrivals and backwards while it got none)

    def begin(self, parameter: Parameter) -> None:
        """A parameter that a model has got while it trained."""
        tensor = parameter.reference()
        if tensor is not None and not parameter.optimizers:
            self._first[parameter.key] = (parameter, sample(tensor, wait=True))
            self._without[parameter.key] = (parameter, 0, self._trace.backwards)

    def note(self) -> None:
        """Note which parameters have got gradients since the last judgement."""
        now = self._trace.backwards
        for key, parameter in self._parameters.items():
            known = self._changed.get(key)
            if known is None or known[0] is not parameter:
                self._changed[key] = (parameter, parameter.arrivals, now if parameter.arrivals else 0)
            elif known[1] != parameter.arrivals:
                self._changed[key] = (parameter, parameter.arrivals, now)
        if len(self._changed) > 2 * len(self._parameters) + 64:
            self._changed = {key: fact for key, fact in self._changed.items() if key in self._parameters}

    def idle_for(self, parameter: Parameter) -> int:
        """Backwards since the last judgement at which it had got a gradient."""
        known = self._changed.get(parameter.key)
        if known is None or known[0] is not parameter or known[1] != parameter.arrivals:
            return 0
        return self._trace.backwards - known[2]

    def before_gradients(self, parameter: Parameter) -> tuple[int, int]:
        """(its gradients, all backwards) up to where it began to get gradients of late: it may have been frozen before."""
        known = self._without.get(parameter.key)
        if known is None or known[0] is not parameter:
            before = parameter.arrivals if parameter.optimizers else 0
            known = self._without[parameter.key] = (parameter, before, 0)
        if known[1] == parameter.arrivals and not self._trace.ended:
            known = self._without[parameter.key] = (parameter, known[1], self._trace.backwards)
            tensor = parameter.reference()
            if tensor is not None:
                self._first[parameter.key] = (parameter, sample(tensor, wait=True))
        return known[1], known[2]

    def has_moved(self, parameter: Parameter) -> bool:
        """Whether its values are others than when it was first seen."""
        tensor = parameter.reference()
        values = sample(tensor, wait=True) if tensor is not None else []
        if not values:
            return True  # who knows
        first = self._first.get(parameter.key)
        if first is None or first[0] is not parameter:
            self._first[parameter.key] = (parameter, values)
            return self._trace.steps <= 3  # one look tells nothing
        return first[1] != values
