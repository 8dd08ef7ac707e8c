"""Rules about schedules: learning rates and what changes them."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.epochs import Epochs
from instep.doctor.watch.hand_rates import HandRates, fitted_horizon
from instep.doctor.watch.loaders import Loaders
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.rates import Rate, Rates
from instep.doctor.watch.rows import Rows
from instep.doctor.watch.schedulers import SchedulerRecord, Schedulers

Scheduled = tuple[SchedulerRecord, OptimizerRecord, Rate]


def _scheduled(trace: Trace) -> Iterator[Scheduled]:
    """Every scheduler that has stepped, with its optimizer."""
    optimizers, rates = trace.part(Optimizers).all, trace.part(Rates).all
    for scheduler in trace.part(Schedulers).all:
        rate = rates.get(scheduler.number)
        if rate is not None and scheduler.optimizer is not None:
            yield scheduler, optimizers[scheduler.optimizer], rate


@rule("scheduler-before-optimizer")
def scheduler_before_optimizer(trace: Trace) -> Iterator[Finding]:
    """A scheduler that steps before its optimizer has, from a line that goes on doing so.

    Not: the fast-forward of a resumed run (several steps, or another line), a first step that a GradScaler or a NaN-guard left
    out (a backward came before, and later on the order is right), a first rate of 0, `step(0)`.
    """
    for scheduler, owner, rate in _scheduled(trace):
        if scheduler.early != 1 or not scheduler.early_again or owner.all_steps < 2 or scheduler.name == "ReduceLROnPlateau":
            continue
        if rate.loaded or rate.early_position < 1 or scheduler.first_lr == 0.0:
            continue
        if rate.early_backwards and (rate.seen < 3 or not trace.has_share(rate.pending, rate.seen, 0.7)):
            continue
        kept = rate.early_lr == scheduler.first_lr  # as with StepLR: only the times of the later changes are wrong
        lost = f"the first learning rate, {scheduler.first_lr:.4g}, was never used"
        yield Finding(
            "scheduler-before-optimizer",
            f"{scheduler.name} stepped before the first step of {owner.name}: "
            f"{'every later change of the learning rate comes one step of it too early' if kept else lost}.",
            evidence={
                "scheduler": scheduler.name,
                "optimizer": owner.name,
                "scheduler_steps": scheduler.steps,
                "optimizer_steps": owner.all_steps,
                "skipped_lr": None if kept else scheduler.first_lr,
            },
            where=scheduler.early_site,
            since_step=0,
            severity="warning" if kept else None,
        )


@rule("schedule-wrong-unit", revocable=True, steps=30)
def schedule_wrong_unit(trace: Trace) -> Iterator[Finding]:
    """Schedulers that count in another unit than they are stepped in, by what became of the learning rate."""
    passes = sum(loader.full_passes for loader in trace.part(Loaders).all if loader.trained)
    by_hand = _epochs_by_hand(trace) if not passes and trace.ended else None
    found: dict[int, Finding] = {}
    for scheduled in _scheduled(trace):
        scheduler, owner, _ = scheduled
        if scheduler.steps < 2 or owner.all_steps < 30 or scheduler.name == "ReduceLROnPlateau":
            continue
        finding = None
        made = scheduler.steps_of(owner.all_steps)
        if made >= 0.7 * owner.all_steps:
            epochs = by_hand[0] if by_hand else passes
            finding = _counts_epochs(scheduled, epochs, by_hand is not None) or _ends_with_epochs(trace, scheduled, epochs)
        elif trace.ended and owner.all_steps >= 3 * made:
            finding = _counts_batches(scheduled, trace.steps)
        if finding is not None:
            found.setdefault(owner.number, finding)
    yield from found.values()
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
        saw = None
        moving = changed >= 0.7 * min(rate.settled, rate.looks)  # with every update, as long as it moved
        if moving and trace.exceeds(rate.faded / steps, 0.4):
            saw = f"with every update, and was below 1e-4 of its highest value for {rate.faded} of {steps} updates"
        elif moving and passes >= 4 and passes - 1 <= rate.settled <= passes and steps >= 4 * rate.settled + 20:
            if trace.is_below(rate.last / rate.highest, 0.3):
                saw = (
                    f"with every update, fell from {rate.highest:.3g} to {rate.last:.3g} in the first {rate.settled} of {steps} "
                    f"updates and then stayed, and there were {passes} epochs"
                )
        elif 3 * changed <= steps and _is_planned(rate.first, [lr for _, lr in rate.changes], steps):
            saw = (
                f"once in {steps / (changed + 1):.0f} updates, along a decay that would have ended after about {steps} changes: "
                f"it is {rate.last / rate.highest:.3g} of its highest value after {steps} updates"
            )
        if saw is not None:
            yield Finding(
                "schedule-wrong-unit",
                f"The learning rate of {owner.name} is written by hand, {saw}.",
                evidence={"optimizer": owner.name, "changes": changed, "optimizer_steps": steps, "epochs": passes},
                where=rate.site,
                since_step=0,
                fix="count the schedule in the unit in which it is set: updates inside the loop over batches, epochs outside",
            )


def _is_planned(first: float, lrs: list[float], steps: int) -> bool:
    """Whether a decay was planned to end after as many of its own steps as there were updates."""
    horizon = fitted_horizon([lr / first for lr in lrs]) if first else None
    return horizon is not None and horizon >= 3 * len(lrs) and abs(horizon - steps) <= 0.06 * steps


def _epochs_by_hand(trace: Trace) -> tuple[int, float] | None:
    """(how many, updates in each) of a script whose batches come from no loader: by what comes after them, or the same data."""
    again = {calls for calls in trace.part(Rows).epochs.values() if calls >= 3}  # not: the same rows again in one update
    updates = max((optimizer.all_steps for optimizer in trace.part(Optimizers)), default=0)
    if len(again) == 1 and max(again) <= updates / 3:
        return round(updates / max(again)), float(max(again))
    return trace.part(Epochs).regular(trace.steps)


def _counts_epochs(scheduled: Scheduled, passes: int, by_hand: bool) -> Finding | None:
    """Stepped with every update: did the rate run out, or swing, as if the horizon were given in epochs?

    Where epochs are known only by what comes after them (`by_hand`), the horizon must be one that they reach.
    """
    scheduler, owner, rate = scheduled
    steps, epoch = owner.all_steps, owner.all_steps / passes if passes >= 2 else 0.0
    stepwise = scheduler.name in ("StepLR", "MultiStepLR", "ExponentialLR")
    level = 0 if stepwise and epoch else 1
    faded = rate.faded[level] + (steps - rate.last_done if rate.fading[level] else 0)
    if faded > 0.4 * steps:
        return _wrong_unit(
            scheduled,
            f"with every update: the learning rate was below {(1e-3, 1e-4)[level]:g} of its highest value for {faded} of "
            f"{steps} updates",
            {"faded_updates": faded},
            "scheduler.step()  # once an epoch, after the loop over batches",
        )
    half = scheduler.horizon.get("T_max")
    swings = isinstance(half, (int, float)) and scheduler.name == "CosineAnnealingLR" and scheduler.steps_of(steps) >= 4 * half
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
    reached = not by_hand or (milestones and max(milestones) <= passes)
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


def _ends_with_epochs(trace: Trace, scheduled: Scheduled, passes: int) -> Finding | None:
    """Stepped with every update: a decay that had come to its end, for good, after as many updates as there are epochs.

    A schedule of one's own need not say what it counts, nor go down to 0. Epochs that were planned and not run tell nothing.
    """
    scheduler, owner, _ = scheduled
    steps, settled = owner.all_steps, scheduler.settled
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


def _counts_batches(scheduled: Scheduled, all_steps: int) -> Finding | None:
    """Stepped far less often than the optimizer: does the horizon count updates? Those of a resumed run belong together."""
    scheduler, owner, rate = scheduled
    steps, stepped = owner.all_steps, scheduler.steps_of(owner.all_steps)
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
    top, low = rate.highest[0] if rate.highest else 0.0, scheduler.first_lr
    rising = stepped >= 3 and rate.falls == 0 and rate.rises == rate.seen
    reached = low + (top - low) / stepped * steps  # where it would be, stepped with every update
    if rising and top <= 0.25 * scheduler.base_lr and reached >= 0.8 * scheduler.base_lr:
        return _wrong_unit(
            scheduled,
            f"once in {each:.0f} updates, and never left the warm-up: {top:.3g} of {scheduler.base_lr:.3g} after {steps} updates",
            {"highest_lr": top, "base_lr": scheduler.base_lr},
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


@rule("one-cycle-max-lr")
def one_cycle_max_lr(trace: Trace) -> Iterator[Finding]:
    """OneCycleLR whose peak is not above the lr that somebody wrote for the optimizer."""
    for cycle in trace.part(Rates).cycles:
        if (
            not cycle.lrs
            or not cycle.written
            or any(top > lr * (1 + 1e-9) for top, lr in zip(cycle.max_lrs, cycle.lrs, strict=False))
        ):
            continue
        yield Finding(
            "one-cycle-max-lr",
            f"OneCycleLR has max_lr={cycle.max_lrs[0]:.4g}, and the optimizer was given lr={cycle.lrs[0]:.4g}, which is "
            "overwritten.",
            evidence={"max_lr": cycle.max_lrs[0], "lr": cycle.lrs[0]},
            where=cycle.site,
            fix=f"max_lr={10 * cycle.lrs[0]:.3g}  # the largest rate that still trains; a range test finds it",
        )


@rule("lambda-absolute-lr", revocable=True, steps=20)
def lambda_absolute_lr(trace: Trace) -> Iterator[Finding]:
    """LambdaLR whose factor is never more than about the base rate itself, and is not on its way up."""
    for scheduler, owner, _ in _scheduled(trace):
        base, top = scheduler.base_lr, max(scheduler.highest, scheduler.first_lr)
        if (
            scheduler.name != "LambdaLR"
            or not 0 < base < 0.1
            or owner.all_steps < 20
            or scheduler.steps < (3 if trace.ended else 10)
        ):
            continue
        factor = top / base
        rates = [lr for _, lr in scheduler.lrs]
        still_rising = rates[-1] >= top and rates[len(rates) // 2] < 0.99 * top
        if not 0 < factor <= 0.1 or not 0.1 <= factor / base <= 10 or still_rising:
            continue
        yield Finding(
            "lambda-absolute-lr",
            f"LambdaLR multiplied lr={base:.4g} by at most {factor:.4g}: the learning rate was never above {top:.3g}.",
            evidence={"base_lr": base, "highest_factor": factor, "highest_lr": top, "optimizer_steps": owner.all_steps},
            where=scheduler.site,
            since_step=0,
        )
