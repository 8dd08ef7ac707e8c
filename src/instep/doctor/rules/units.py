"""The rule about the unit of schedules: does one that counts epochs hear of every update, or the other way round?"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.rules.schedule import Scheduled, scheduled_optimizers
from instep.doctor.trace import Trace
from instep.doctor.watch.epochs import Epochs
from instep.doctor.watch.hand_rates import HandRate, HandRates, fitted_horizon
from instep.doctor.watch.loaders import Loaders
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.rows import Rows
from instep.doctor.watch.schedulers import SchedulerRecord, Schedulers


@dataclass(frozen=True)
class Life:
    """What happened from the making of a scheduler until another phase had one of its own."""

    steps: int  # of its optimizer
    end: int  # all steps of its optimizer by then
    stepped: float  # its own
    passes: int
    by_hand: bool  # whether passes are known only by what comes after them


def _life(trace: Trace, scheduler: SchedulerRecord, owner: OptimizerRecord) -> Life:
    later = [
        each
        for each in trace.part(Schedulers).all
        if each.made_step > scheduler.made_step and each.made_step >= scheduler.last_step
    ]
    end = min((each.made_done for each in later if each.optimizer == scheduler.optimizer), default=owner.all_steps)
    until = min((each.made_step for each in later), default=None)
    steps, stepped = end - scheduler.made_done, scheduler.steps_of(end)
    if not scheduler.made_step and until is None:
        passes = sum(loader.full_passes for loader in trace.part(Loaders).all if loader.trained)
    else:
        passes = trace.part(Epochs).passes_between(scheduler.made_step, trace.steps if until is None else until)
    by_hand = _epochs_by_hand(trace, scheduler.made_step, until) if not passes and trace.ended else None
    return Life(steps, end, stepped, by_hand[0] if by_hand else passes, by_hand is not None)


@rule("schedule-wrong-unit", revocable=True, steps=30)
def schedule_wrong_unit(trace: Trace) -> Iterator[Finding]:
    """Schedulers that count in another unit than they are stepped in, by what became of the learning rate."""
    found: dict[int, Finding] = {}
    for scheduled in scheduled_optimizers(trace):
        scheduler, owner, _ = scheduled
        life = _life(trace, scheduler, owner)
        if scheduler.steps < 2 or life.steps < 30 or scheduler.name == "ReduceLROnPlateau":
            continue
        finding = None
        if life.stepped >= 0.7 * life.steps:
            finding = _counts_epochs(scheduled, life) or _ends_with_epochs(trace, scheduled, life)
        elif trace.ended and life.steps >= 3 * life.stepped:
            finding = _counts_batches(scheduled, life, trace.steps)
        if finding is not None:
            found.setdefault(owner.number, finding)
    yield from found.values()
    passes = sum(loader.full_passes for loader in trace.part(Loaders).all if loader.trained)
    by_hand = _epochs_by_hand(trace) if not passes and trace.ended else None
    yield from _written_by_hand(trace, by_hand[0] if by_hand else passes)


def _written_by_hand(trace: Trace, passes: int) -> Iterator[Finding]:
    """Rates that the script writes into the optimizer itself, in another unit than it counts them in."""
    scheduled = {scheduler.optimizer for scheduler in trace.part(Schedulers).all}
    known = trace.part(Optimizers).all
    for rate in trace.part(HandRates).all.values():
        if rate.optimizer >= len(known):
            continue  # one too many to be kept, which share a number
        owner = known[rate.optimizer]
        steps, changed = owner.all_steps, rate.changed
        if rate.optimizer in scheduled or steps < 30 or changed < 3 or not trace.ended or not rate.highest:
            continue
        saw: str | None = None
        hint = False
        between = rate.changes[-1][0] / len(rate.changes) if rate.changes else 0.0
        moving = changed >= 0.7 * min(rate.settled, rate.looks)  # with every update, as long as it moved
        if moving and trace.exceeds(rate.faded / steps, 0.4):
            saw = f"with every update, and was below 1e-4 of its highest value for {rate.faded} of {steps} updates"
        elif moving and passes >= 4 and passes - 1 <= rate.settled <= passes and steps >= 4 * rate.settled + 20:
            if trace.is_below(rate.last / rate.highest, 0.3):
                saw = (
                    f"with every update, fell from {rate.highest:.3g} to {rate.last:.3g} in the first {rate.settled} of {steps} "
                    f"updates and then stayed, and there were {passes} epochs"
                )
        elif _is_seldom(rate) and _is_planned(rate.first, [lr for _, lr in rate.changes], steps):
            saw = (
                f"once in {between:.0f} updates, along a decay that would have ended after about {steps} changes: "
                f"it is {rate.last / rate.highest:.3g} of its highest value after {steps} updates"
            )
        elif _is_seldom(rate) and _is_rising(rate, owner.lrs[0] if owner.lrs else 0.0, steps):
            hint = True
            saw = f"once in {between:.0f} updates, and never left its warm-up: {rate.last:.3g} of {owner.lrs[0]:.3g}"
        elif not moving and _is_cut_early(rate, passes, steps) and trace.exceeds(rate.faded / steps, 0.4):
            saw = (
                f"once in {rate.settled / changed:.1f} updates, and was below 1e-4 of its highest value for {rate.faded} of "
                f"{steps} updates"
            )
        if saw is not None:
            yield Finding(
                "schedule-wrong-unit",
                f"The learning rate of {owner.name} is written by hand, {saw}.",
                evidence={"optimizer": owner.name, "changes": changed, "optimizer_steps": steps, "epochs": passes},
                where=rate.site,
                since_step=0,
                fix="count the schedule in the unit in which it is set: updates inside the loop over batches, epochs outside",
                severity="hint" if hint else None,
            )


def _is_seldom(rate: HandRate) -> bool:
    """Whether most steps found the rate of the step before. Of steps that were not looked at, nobody knows."""
    return 3 * rate.changed <= rate.looks


def _is_rising(rate: HandRate, lr: float, steps: int) -> bool:
    """Whether a rate, set now and then, has only gone up in equal parts, and would have come to `lr` if it were set each time."""
    lrs = [rate.first, *(each for _, each in rate.changes)]
    parts = [b - a for a, b in pairwise(lrs)]
    if len(parts) < 3 or min(parts) <= 0 or max(parts) > 1.01 * min(parts) or rate.last < lrs[-1]:
        return False
    return lr > 0 and rate.last <= 0.4 * lr and lrs[0] + steps * max(parts) >= 0.8 * lr


def _is_cut_early(rate: HandRate, passes: int, steps: int) -> bool:
    """Whether a rate was cut by one factor again and again, several times in an epoch, and was at its end early."""
    lrs = [rate.first, *(each for _, each in rate.changes)]
    factors = [b / a for a, b in pairwise(lrs) if a > 0][:-1]  # the last one may be cut short by a floor
    if len(factors) < 7 or max(factors) > 0.95 or max(factors) > 1.01 * min(factors):
        return False
    between = rate.settled / rate.changed
    return rate.settled <= 0.4 * steps and (passes < 2 or between <= steps / passes / 2)


def _is_planned(first: float, lrs: list[float], steps: int) -> bool:
    """Whether a decay was planned to end after as many of its own steps as there were updates."""
    horizon = fitted_horizon([lr / first for lr in lrs]) if first else None
    return horizon is not None and horizon >= 3 * len(lrs) and abs(horizon - steps) <= 0.06 * steps


def _epochs_by_hand(trace: Trace, since: int = 0, until: int | None = None) -> tuple[int, float] | None:
    """(how many, updates in each) of a script whose batches come from no loader: by what comes after them, or the same data."""
    again = {calls for calls in trace.part(Rows).epochs.values() if calls >= 3}  # not: the same rows again in one update
    updates = max((optimizer.all_steps for optimizer in trace.part(Optimizers)), default=0)
    if since or until is not None:
        return trace.part(Epochs).regular(trace.steps if until is None else until, since)
    if len(again) == 1 and max(again) <= updates / 3:
        return round(updates / max(again)), float(max(again))
    return trace.part(Epochs).regular(trace.steps)


def _counts_epochs(scheduled: Scheduled, life: Life) -> Finding | None:
    """Stepped with every update: did the rate run out, or swing, as if the horizon were given in epochs?

    Where epochs are known only by what comes after them, the horizon must be one that they reach.
    """
    scheduler, _, rate = scheduled
    steps, passes, epoch = life.steps, life.passes, life.steps / life.passes if life.passes >= 2 else 0.0
    stepwise = scheduler.name in ("StepLR", "MultiStepLR", "ExponentialLR")
    level = 0 if stepwise and epoch else 1
    faded = rate.faded[level] + (life.end - rate.last_done if rate.fading[level] else 0)
    if faded > 0.4 * steps:
        return _wrong_unit(
            scheduled,
            f"with every update: the learning rate was below {(1e-3, 1e-4)[level]:g} of its highest value for {faded} of "
            f"{steps} updates",
            {"faded_updates": faded},
            "scheduler.step()  # once an epoch, after the loop over batches",
        )
    half = scheduler.horizon.get("T_max")
    swings = isinstance(half, (int, float)) and scheduler.name == "CosineAnnealingLR" and life.stepped >= 4 * half
    if swings and half and (half == passes or (epoch and half <= epoch / 2)):
        return _wrong_unit(
            scheduled,
            f"with every update, so that the learning rate went down and up again every {2 * half:g} updates",
            {"T_max": half, "epochs": passes},
            "scheduler.step()  # once an epoch; or T_max=epochs * len(loader)",
        )
    size, gamma = scheduler.horizon.get("step_size"), scheduler.horizon.get("gamma", 1.0)
    cut = scheduler.name == "StepLR" and isinstance(size, int) and gamma <= 0.9 and scheduler.lowest < 0.01 * scheduler.highest
    if cut and size and 2 * size <= epoch and size <= passes and passes >= 3:
        return _wrong_unit(
            scheduled,
            f"with every update: the learning rate was cut {epoch / size:.0f} times in an epoch of {epoch:.0f} updates",
            {"step_size": size, "epochs": passes},
            "scheduler.step()  # once an epoch, after the loop over batches",
        )
    milestones = scheduler.horizon.get("milestones")
    reached = not life.by_hand or (milestones and max(milestones) <= passes)
    last = max(milestones) if milestones else 0
    of_epochs = epoch >= 5 and passes / 2 <= last <= passes and last < steps / 4  # would fit the epochs as well
    if last and reached and epoch and (last < min(epoch, steps / 3) or of_epochs) and passes >= 3 and scheduler.cuts >= 2:
        return _wrong_unit(
            scheduled,
            f"with every update: all of its milestones {milestones} were passed within the first {last / epoch:.1f} epochs of "
            f"{epoch:.0f} updates",
            {"milestones": milestones, "epochs": passes},
            "scheduler.step()  # once an epoch, after the loop over batches",
        )
    return None


def _ends_with_epochs(trace: Trace, scheduled: Scheduled, life: Life) -> Finding | None:
    """Stepped with every update: a decay that had come to its end, for good, after as many updates as there are epochs.

    A schedule of one's own need not say what it counts, nor go down to 0. Epochs that were planned and not run tell nothing.
    """
    scheduler, *_ = scheduled
    steps, passes, settled = life.steps, life.passes, scheduler.settled
    highest = max(scheduler.highest, scheduler.first_lr)
    if not trace.ended or passes < 4 or not passes - 1 <= settled <= passes or settled > steps / 4 or not highest:
        return None
    if scheduler.still < max(20, 3 * settled) or not trace.is_below(scheduler.lrs[-1][1] / highest, 0.3):
        return None
    return _wrong_unit(
        scheduled,
        f"with every update: the learning rate fell from {highest:.3g} to {scheduler.lrs[-1][1]:.3g} in the first {settled} of "
        f"{steps} updates and then stayed, and there were {passes} epochs",
        {"last_change": settled, "epochs": passes},
        "scheduler.step()  # once an epoch, after the loop over batches; or count its length in updates",
    )


def _counts_batches(scheduled: Scheduled, life: Life, all_steps: int) -> Finding | None:
    """Stepped far less often than the optimizer: does the horizon count updates? Those of a resumed run belong together."""
    scheduler, _, rate = scheduled
    steps, stepped = life.steps, life.stepped
    each = steps / stepped
    horizon = next(
        (scheduler.horizon[name] for name in ("total_steps", "T_max", "total_iters") if name in scheduler.horizon), None
    )
    if isinstance(horizon, int) and stepped <= 0.5 * horizon:
        planned = any(abs(horizon - made) <= max(stepped, 0.02 * made) for made in (steps, all_steps))
        one_cycle = scheduler.name == "OneCycleLR" and horizon >= 3 * each and abs(horizon / each - round(horizon / each)) < 0.01
        of_loader = scheduler.name == "CosineAnnealingLR" and each >= 16 and horizon == round(each)
        if planned or one_cycle or of_loader:
            return _wrong_unit(
                scheduled,
                f"once in {each:.0f} updates, and had made {stepped:.0f} of its {horizon} steps when the run ended "
                f"after {steps} updates",
                {"horizon": horizon},
                "scheduler.step()  # with every update, inside the loop over batches",
                hint=of_loader and not (planned or one_cycle),
            )
    if horizon is None and scheduler.steps == len(scheduler.lrs) and scheduler.first_lr == scheduler.base_lr:
        lrs = [lr for _, lr in scheduler.lrs]
        if any(_is_planned(scheduler.base_lr, lrs, made) for made in (steps, all_steps)):
            return _wrong_unit(
                scheduled,
                f"once in {each:.0f} updates, and its decay would have ended after about {steps} of its steps: the learning rate "
                f"is {lrs[-1] / scheduler.base_lr:.3g} of what it was",
                {"last_lr": lrs[-1], "base_lr": scheduler.base_lr},
                "scheduler.step()  # with every update, inside the loop over batches",
            )
    if rate.idle >= 10 and any(rate.highest):
        return _wrong_unit(
            scheduled,
            f"once in {each:.0f} updates, and its warm-up begins at 0: the first {rate.idle} updates changed nothing",
            {"updates_at_0": rate.idle},
            "scheduler.step()  # with every update, if the warm-up is counted in updates; otherwise (epoch + 1) / warmup",
        )
    top, low, base = rate.highest[0] if rate.highest else 0.0, scheduler.first_lr, max(scheduler.base_lr, scheduler.initial_lr)
    rising = stepped >= 3 and rate.falls == 0 and rate.rises == rate.seen
    reached = low + (top - low) / stepped * steps  # where it would be, stepped with every update
    if rising and top <= 0.25 * base and reached >= 0.8 * base:
        return _wrong_unit(
            scheduled,
            f"once in {each:.0f} updates, and never left the warm-up: {top:.3g} of {base:.3g} after {steps} updates",
            {"highest_lr": top, "base_lr": base},
            "scheduler.step()  # with every update, if the warm-up is counted in updates",
            hint=True,
        )
    return None


def _wrong_unit(scheduled: Scheduled, saw: str, evidence: dict[str, object], fix: str, *, hint: bool = False) -> Finding:
    scheduler, owner, _ = scheduled
    common = {"scheduler": scheduler.name, "scheduler_steps": scheduler.steps, "optimizer_steps": owner.all_steps}
    return Finding(
        "schedule-wrong-unit",
        f"{scheduler.name} was stepped {saw}.",
        evidence=common | evidence,
        where=scheduler.sites.most_common(1)[0][0],
        since_step=0,
        fix=fix,
        severity="hint" if hint else None,
    )
