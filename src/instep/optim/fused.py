"""Whether torch has a fused implementation of an optimizer that is not used: a fact for the plan, nothing is measured."""

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from instep.distributed.dtensors import is_sharded

FUSED = (Adam, AdamW, SGD, Adagrad)
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


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
    return f"{kind.__name__}(…, fused=True) is often faster on a CPU"
