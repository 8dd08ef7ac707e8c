"""The engine: judges the trace now and then, and says each cause once."""

from collections.abc import Callable, Iterator
from typing import Any

from instep.doctor.finding import Finding
from instep.doctor.hub import Hub
from instep.doctor.rules import Rule, all_rules
from instep.doctor.trace import Trace
from instep.doctor.watch.byhand import ByHand

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
        self.findings: dict[str, Finding] = {}
        self._trace, self._hub = trace, hub
        self._admitted, self._said, self._withdrawn = admitted, said, withdrawn
        self._rules = all_rules()
        self._next = _milestones()
        self._due = next(self._next)
        self._judged_step = -1

    def after_step(self, _: Any) -> None:
        self._hub.read_late()
        if self._trace.steps >= self._due:
            self.judge()

    def on_rest(self) -> None:
        self._hub.alarm = min(self._hub.alarm, self._due)

    def on_alarm(self) -> None:
        """While resting, steps are not told one by one."""
        if self._trace.steps >= self._due:
            self.judge()
        self.on_rest()

    def on_pass_ends(self, _: Any) -> None:
        steps = self._trace.steps
        if steps > self._judged_step * 1.2 + 1:  # a tiny loader ends often
            self.judge()

    def judge(self) -> None:
        """Ask every rule."""
        if self._hub.stood_down is not None:
            return
        steps = self._judged_step = self._trace.steps
        while self._due <= steps:
            self._due = next(self._next)
        self._hub.say("on_judge")
        for rule in self._rules:
            if self._is_too_short(rule):
                continue
            try:
                found = {finding.key: finding for finding in self._ask(rule)}
            except Exception:
                self._hub.note_failure()
                continue
            if rule.revocable:
                self._withdraw(rule.id, set(found))
            for key, finding in found.items():
                self._keep(key, finding)

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
        """Whether there were fewer steps, and fewer backwards, than a rule needs."""
        trace = self._trace
        return not trace.strict and max(trace.steps, trace.backwards) < rule.steps

    def remarks(self) -> list[str]:
        """What could not be judged: known at the end."""
        trace, hand = self._trace, self._trace.part(ByHand)
        if self._hub.stood_down is not None:
            return [f"{self._hub.stood_down}: nothing was judged."]
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
        return said

    def end(self) -> None:
        """The last judgement."""
        self._hub.read_late(all=True)
        self._hub.say("on_end")
        self._trace.ended = True
        self.judge()

    def _keep(self, key: str, finding: Finding) -> None:
        admitted = self._admitted(finding)
        known = self.findings.get(key)
        if admitted is None or known == admitted:
            return
        self.findings[key] = admitted
        self._said(admitted, known is None)

    def _withdraw(self, id: str, still: set[str]) -> None:
        for key, finding in list(self.findings.items()):
            if finding.id == id and key not in still:
                del self.findings[key]
                self._withdrawn(finding)


def _milestones() -> Any:
    yield 3
    scale = 1
    while True:
        yield from (5 * scale, 10 * scale, 20 * scale)
        scale *= 10
