"""Every scheduler that torch has, built for a run of so many updates with two parameter groups; ReduceLROnPlateau is apart."""

from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    SequentialLR,
    StepLR,
)

BUILD: dict[str, Callable[[Optimizer, int], LRScheduler]] = {
    "LambdaLR": lambda optimizer, total: LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    "MultiplicativeLR": lambda optimizer, total: MultiplicativeLR(optimizer, lambda step: 0.9),
    "StepLR": lambda optimizer, total: StepLR(optimizer, total // 4),
    "MultiStepLR": lambda optimizer, total: MultiStepLR(optimizer, [total // 3, total // 2]),
    "ConstantLR": lambda optimizer, total: ConstantLR(optimizer, total_iters=total // 2),
    "LinearLR": lambda optimizer, total: LinearLR(optimizer, total_iters=total),
    "ExponentialLR": lambda optimizer, total: ExponentialLR(optimizer, 0.8),
    "SequentialLR": lambda optimizer, total: SequentialLR(
        optimizer, [LinearLR(optimizer, total_iters=3), CosineAnnealingLR(optimizer, total - 3)], milestones=[3]
    ),
    "PolynomialLR": lambda optimizer, total: PolynomialLR(optimizer, total, power=2),
    "CosineAnnealingLR": lambda optimizer, total: CosineAnnealingLR(optimizer, T_max=total),
    "ChainedScheduler": lambda optimizer, total: ChainedScheduler(
        [LinearLR(optimizer, total_iters=3), ExponentialLR(optimizer, 0.9)], optimizer
    ),
    "CyclicLR": lambda optimizer, total: CyclicLR(optimizer, 0.01, 0.5, step_size_up=3, mode="exp_range", gamma=0.9),
    "CosineAnnealingWarmRestarts": lambda optimizer, total: CosineAnnealingWarmRestarts(optimizer, 3, 2),
    "OneCycleLR": lambda optimizer, total: OneCycleLR(optimizer, [0.5, 0.1], total),
}
