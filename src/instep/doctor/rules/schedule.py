"""Rules about schedules: learning rates and what changes them."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.rates import Rate, Rates
from instep.doctor.watch.schedulers import SchedulerRecord, Schedulers

Scheduled = tuple[SchedulerRecord, OptimizerRecord, Rate]


def scheduled_optimizers(trace: Trace) -> Iterator[Scheduled]:
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
    for scheduler, owner, rate in scheduled_optimizers(trace):
        if scheduler.early != 1 or not scheduler.early_again or owner.all_steps < 2 or scheduler.name == "ReduceLROnPlateau":
            continue
        if rate.loaded or rate.early_position < 1 or scheduler.first_lr == 0.0:
            continue
        if scheduler.made_done and not rate.early_backwards:
            continue  # put on an optimizer that has just stepped, perhaps: this step comes after that one
        if rate.early_backwards and (rate.seen < 3 or not trace.has_share(rate.pending, rate.seen, 0.7)):
            continue
        kept = rate.early_lr == scheduler.first_lr  # as with StepLR: only the times of the later changes are wrong
        since = f" since it was made, at step {scheduler.made_step}" if scheduler.made_done else ""
        lost = f"the first learning rate, {scheduler.first_lr:.4g}, was never used"
        yield Finding(
            "scheduler-before-optimizer",
            f"{scheduler.name} stepped before the first step of {owner.name}{since}: "
            f"{'every later change of the learning rate comes one scheduler step too early' if kept else lost}.",
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
    for scheduler, owner, _ in scheduled_optimizers(trace):
        base, top = scheduler.base_lr, max(scheduler.highest, scheduler.first_lr)
        if (
            scheduler.name != "LambdaLR"
            or not 0 < base <= 0.3
            or owner.all_steps < 20
            or scheduler.steps < (3 if trace.ended else 10)
        ):
            continue
        factor = top / base
        most = 0.3 if 0.98 <= factor / base <= 1.02 else 0.1  # where it is the rate itself, that may be large
        rates = [lr for _, lr in scheduler.lrs]
        still_rising = rates[-1] >= top and rates[len(rates) // 2] < 0.99 * top
        if not 0 < factor <= most or base >= most or not 0.1 <= factor / base <= 10 or still_rising:
            continue
        yield Finding(
            "lambda-absolute-lr",
            f"LambdaLR multiplied lr={base:.4g} by at most {factor:.4g}: the learning rate was never above {top:.3g}.",
            evidence={"base_lr": base, "highest_factor": factor, "highest_lr": top, "optimizer_steps": owner.all_steps},
            where=scheduler.site,
            since_step=0,
        )
