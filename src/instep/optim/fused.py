"""torch's fused optimizers: advice for the plan where one is not used, an error where the one that is used does not work."""

import functools

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from instep.distributed.dtensors import is_sharded
from instep.errors import DescriptionError

FUSED = (Adam, AdamW, SGD, Adagrad)
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float64, torch.float32, *HALVES)


def fused_advice(optimizer: Optimizer) -> str | None:
    """One line for the plan where torch would loop over the parameters on a CPU, which its documentation calls slower."""
    kind = type(optimizer)
    chosen = ("fused", "foreach", "differentiable", "capturable")
    if kind not in FUSED or any(group.get(option) for group in optimizer.param_groups for option in chosen):
        return None
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    # On an accelerator torch's default is one call for all parameters already; the cost of shares is not their arithmetic.
    if any(p.device.type != "cpu" or p.dtype not in DTYPES or is_sharded(p) for p in parameters):
        return None
    if kind is SGD and any(p.dtype in HALVES and not _fused_sgd_works(p.dtype) for p in parameters):
        return None
    return f"{kind.__name__}(…, fused=True) is often faster on a CPU"


def require_working_fused(optimizer: Optimizer) -> None:
    """Refuse a fused SGD that leaves parameters in half precision on a CPU as they are, and reads beyond its momentum.

    torch 2.12 and 2.13 do (pytorch/pytorch#191763). Whether this one does is tried, not read off its version.
    """
    if not isinstance(optimizer, SGD):
        return
    groups = [group for group in optimizer.param_groups if group.get("fused")]
    for dtype in {p.dtype for group in groups for p in group["params"] if p.device.type == "cpu" and p.dtype in HALVES}:
        if not _fused_sgd_works(dtype):
            raise DescriptionError(
                f"SGD(…, fused=True) does not train {str(dtype).removeprefix('torch.')} parameters on the CPU: this torch "
                f"({torch.__version__}) leaves them as they are (pytorch/pytorch#191763); use fused=False."
            )


@functools.cache
def _fused_sgd_works(dtype: torch.dtype) -> bool:
    """Whether one step without momentum, which reads nothing that it should not, moves more numbers than a vector holds.

    The kernel itself is called: hooks on all optimizers, and the doctor, do not hear of it.
    """
    parameter = torch.zeros(128, dtype=dtype, device="cpu")
    torch._fused_sgd_(
        *([parameter], [torch.ones_like(parameter)], []),
        weight_decay=0.0,
        momentum=0.0,
        lr=1.0,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )
    return bool((parameter == -1).all())
