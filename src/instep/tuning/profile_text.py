"""A profile as text: the phases, the heaviest operators, the memory, and the advice with what it gains."""

from instep.text import Paint, bar, columns, number, plain, plural, size, wrapped
from instep.tuning.advice import Advice, pays_after
from instep.tuning.operators import Operator
from instep.tuning.phases import COPY, REST
from instep.tuning.profile import Profile

WIDTH = 80
BAR = 30  # characters of the longest bar


def render(profile: Profile, *, width: int = WIDTH, paint: Paint = plain) -> str:
    """The whole profile."""
    blocks = [
        [_head(profile)],
        _phases(profile, paint),
        _operators(profile, width, paint),
        _memory(profile, width),
        _advice(profile, width, paint),
    ]
    if profile.trace is not None:
        blocks.append([f"trace: {profile.trace}, to be opened at ui.perfetto.dev or chrome://tracing"])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(profile: Profile) -> str:
    low, high = profile.timing.middle_s
    timed = f"{us(profile.update_s)} µs an update ({us(low)}–{us(high)} in the middle half)"
    return f"batch_size={profile.batch_size}, {plural(profile.threads, 'thread')}, {profile.device}; {timed}"


def _phases(profile: Profile, paint: Paint) -> list[str]:
    shares = {name: share for name, share in profile.shares.items() if name != COPY or share > 0}
    most = max(shares.values(), default=1.0) or 1.0
    rows = [(name, us(share * profile.update_s), f"{share:.0%}", bar(share / most, BAR)) for name, share in shares.items()]
    table = columns(("where the time goes", "µs", "share", " "), rows, left=("where the time goes", " "), paint=paint)
    return [*table, f"({REST}: counting, clipping, logging, and what Python does between the calls)"]


def _operators(profile: Profile, width: int, paint: Paint) -> list[str]:
    if not profile.operators:
        return []
    rows = [
        (
            _short(one),
            one.module or "-",
            us(one.self_s),
            f"{one.self_s / profile.operators_s:.0%}" if profile.operators_s else "-",
            f"{one.calls:g}",
        )
        for one in profile.operators
    ]
    head = ("heaviest operators", "module", "µs an update", "share", "calls")
    return columns(head, rows, left=head[:2], width=width, paint=paint)


def _short(one: Operator) -> str:
    name = one.name.removeprefix("aten::")
    return f"{name}, backward" if one.is_backward else name


def _memory(profile: Profile, width: int) -> list[str]:
    held = profile.memory
    said = (
        f"Memory: weights {size(held.weights)}, gradients {size(held.gradients)}, optimizer {size(held.optimizer)}, kept by a "
        f"forward for its backward {size(held.activations)}"
    )
    said += f"; at most {size(held.peak)} on the device." if held.peak is not None else "."
    return wrapped(said, width)


def _advice(profile: Profile, width: int, paint: Paint) -> list[str]:
    advised = [one for one in profile.advice if one.is_advised]
    others = [one for one in profile.advice if not one.is_advised]
    lines = []
    for one in advised:
        lines += wrapped(f"{paint(one.to_type, 'bold green')}: {_gain(one, profile)}", width)
    if others:
        told = ", ".join(f"{one.to_type} ({one.ratio:.2f} ×)" for one in others)
        lines += wrapped(f"Of no clear use here: {told}.", width)
    if profile.noise is not None:
        lines += wrapped(f"Gains were measured in turns; two runs that are the same differ by up to {profile.noise:.1%}.", width)
    for failed in profile.not_measured:
        lines += wrapped(f"{failed.name} could not be measured: {failed.why}", width)
    return lines


def _gain(one: Advice, profile: Profile) -> str:
    said = f"{one.ratio:.2f} × as fast ({one.low:.2f} to {one.high:.2f})"
    after = pays_after(one, profile.update_s)
    if after is not None:
        length = plural(profile.total_steps, "update")
        said += f"; the first update takes {number(one.first_s)} s, so it pays after {plural(after, 'update')} of {length}"
    return f"{said}; {one.remark}." if one.remark else f"{said}."


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:,.0f}"
