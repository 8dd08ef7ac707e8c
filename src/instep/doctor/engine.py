"""The engine: judges the trace now and then, and says each cause once, with what follows from it."""

from collections.abc import Callable, Iterator
from typing import Any

from instep.doctor.causes import gather
from instep.doctor.finding import Finding
from instep.doctor.hub import Hub
from instep.doctor.rules import Rule, all_rules
from instep.doctor.trace import Trace, Unjudged
from instep.doctor.watch.byhand import ByHand
from instep.doctor.watch.compiled import Compiled
from instep.doctor.watch.phases import Phases

# Rules that need whole weights, or another forward, which is a collective where weights are sharded.
WHOLE = (
    "batch-mixed", "batch-first", "future-leaks", "ranks-diverge", "unregistered-module", "symmetric-weights", "weights-not-tied",
)  # fmt: skip
SOON = (10, 40)  # steps after something new has begun at which it is judged: its models may be gone at the end of the run
BEGUN = 8  # beginnings that are
Listener = Callable[[Finding, bool], None]  # a finding, and whether it is new


class Engine:
    """Judges after steps 3, 5, 10, 20, 50, 100, …, at the end of passes, and at the end.

    `admitted` gives a finding as it counts, or None where it is not wanted; `said` hears of each that is new or has new evidence,
    `withdrawn` of those that no longer hold.
    """

    def __init__(
        self,
        trace: Trace,
        hub: Hub,
        *,
        admitted: Callable[[Finding], Finding | None] = lambda finding: finding,
        said: Listener = lambda *_: None,
        withdrawn: Callable[[Finding], None] = lambda _: None,
    ) -> None:
        self.findings: dict[str, Finding] = {}  # as they are said
        self._found: dict[str, Finding] = {}  # as rules gave them
        self._trace, self._hub, self._phases = trace, hub, trace.part(Phases)
        self._hand = trace.part(ByHand)
        self._admitted, self._said, self._withdrawn = admitted, said, withdrawn
        self._rules = all_rules()
        self._next = _milestones()
        self._due = next(self._next)
        self._soon: list[int] = []  # steps at which what has begun of late is judged
        self._begun = 0
        self._judged_step = -1
        self._unjudged: dict[str, None] = {}  # ids of rules that have failed, or whose parts of the trace have

    def after_step(self, _: Any) -> None:
        self._hub.read_late()
        if self._trace.steps >= min((self._due, *self._soon)):
            self.judge()

    def on_optimizer(self, *_: Any) -> None:
        self.on_phase()

    def on_phase(self) -> None:
        """Other things are trained from here on."""
        steps = self._trace.steps
        if steps >= SOON[-1] and self._begun < BEGUN and not self._soon:
            self._begun += 1
            self._soon = [steps + after for after in SOON]

    def on_rest(self) -> None:
        self._hub.alarm = min(self._hub.alarm, self._due, *self._soon)

    def on_alarm(self) -> None:
        """While resting, steps are not told one by one."""
        if self._trace.steps >= min((self._due, *self._soon)):
            self.judge()
        self.on_rest()

    def on_pass_ends(self, _: Any) -> None:
        steps = self._trace.steps
        if steps > self._judged_step * 1.2 + 1:  # a tiny loader ends often
            self.judge()

    def judge(self) -> None:
        """Ask every rule."""
        steps = self._judged_step = self._trace.steps
        while self._due <= steps:
            self._due = next(self._next)
        self._soon = [due for due in self._soon if due > steps]
        self._hub.say("on_judge")
        self._phases.counted = {}
        self._ask_all()
        self._phases.counted = None
        self._tell()

    def _ask_all(self) -> None:
        for rule in self._rules:
            if self._is_too_short(rule) or rule.id in self._unjudged:
                continue
            try:
                found = {finding.key: finding for finding in self._ask(rule)}
            except Exception as error:
                if not isinstance(error, Unjudged):
                    self._hub.note_failure()
                self._unjudged[rule.id] = None
                found = {}  # whether what could be withdrawn still holds is not known
            if rule.revocable:
                self._found = {key: old for key, old in self._found.items() if old.id != rule.id or key in found}
            self._found.update(found)

    def _ask(self, rule: Rule) -> Iterator[Finding]:
        margins = self._trace.margins
        if margins is None:
            yield from rule.judge(self._trace)
            return
        margins.begin(rule.id, revocable=rule.revocable)
        for finding in rule.judge(self._trace):
            margins.note_finding()
            yield finding

    def _is_too_short(self, rule: Rule) -> bool:
        """Whether there were fewer steps, and fewer backwards, than a rule needs; where there were none, gradients count."""
        trace = self._trace
        return not trace.strict and (max(trace.steps, trace.backwards) or self._hand.grads) < rule.steps

    def remarks(self) -> list[str]:
        """What could not be judged: known at the end."""
        if self._unjudged:
            return [f"after an error inside the doctor these were not judged to the end: {', '.join(self._unjudged)}."]
        trace, hand = self._trace, self._hand
        if not trace.steps and not trace.backwards:
            if hand.grads:
                return [
                    f"torch.autograd.grad was called {hand.grads} times and no optimizer stepped: updates by hand are not judged."
                ]
            return ["nothing was trained: there was no backward and no optimizer step."]
        said = []
        if not trace.steps:
            moved = ", and weights were updated by hand" if hand.moved else ""
            said.append(f"{trace.backwards} backwards came without any optimizer step{moved}: what steps use was not judged.")
        found = {finding.id for finding in self.findings.values()}
        short = [rule for rule in self._rules if self._is_too_short(rule) and rule.id not in found]
        short = [rule for rule in short if self._admitted(Finding(rule.id, "")) is not None]
        if short:
            needs = sorted({rule.steps for rule in short})
            lists = [f"{need} for {', '.join(rule.id for rule in short if rule.steps == need)}" for need in needs]
            said.append(f"too short to judge everything; it takes at least this many steps: {'; '.join(lists)}.")
        return [*said, *self._unwatched()]

    def _unwatched(self) -> Iterator[str]:
        """What could not be looked into."""
        if self._hub.sharded:
            left_out = f" {self._hub.unseen} looks at weights that were not there were left out;" if self._hub.unseen else ""
            yield (
                f"parameters are sharded over processes (DTensor): each process looked at the part that it holds;{left_out} "
                f"{', '.join(WHOLE)} were not judged."
            )
        sites = self._trace.part(Compiled).sites
        if sites:
            yield (
                f"code was compiled ({', '.join(sites)}): losses, layers and dropouts inside it were not watched, "
                "its gradients and steps were."
            )

    def end(self) -> None:
        """The last judgement."""
        self._hub.read_late(all=True)
        self._hub.say("on_end")
        self._trace.ended = True
        self.judge()

    def _tell(self) -> None:
        """Say what is new or has new evidence, withdraw what no longer holds or stands under another finding now."""
        gathered = gather(self._found, self._admitted)
        for key in [key for key in self.findings if key not in gathered]:
            self._withdrawn(self.findings.pop(key))
        for key, finding in gathered.items():
            known = self.findings.get(key)
            if known != finding:
                self.findings[key] = finding
                self._said(finding, known is None)


def _milestones() -> Any:
    yield 3
    scale = 1
    while True:
        yield from (5 * scale, 10 * scale, 20 * scale)
        scale *= 10
