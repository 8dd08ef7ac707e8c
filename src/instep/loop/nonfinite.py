"""Where an update went wrong, for a person who has to find the sample."""

import torch
from torch import Tensor, nn

from instep.data.loading.loader import Batch, Loader
from instep.errors import InstepError, NonFiniteLoss


def located(
    error: InstepError,
    batch: Batch,
    before: Batch | None,
    *,
    objective: str,
    model: nn.Module,
    loader: Loader,
    steps_per_epoch: int,
    rank: int | None = None,
) -> InstepError:
    """The same error with step, epoch, batch and samples; of the batch before where it was noticed one update late."""
    if isinstance(error, NonFiniteLoss) and error.late and before is not None:
        batch = before
    step = batch.epoch * steps_per_epoch + batch.index
    whose = f", objective {objective}" if objective else ""
    spoilt = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    holder = "The batch" if rank is None else f"Rank {rank}"
    samples = "" if isinstance(error, NonFiniteLoss) and error.elsewhere else _listed(loader.origin(batch.indices))
    return type(error)(
        f"step {step} (epoch {batch.epoch}, batch {batch.index}{whose}): {error}"
        + (f" {holder} has the samples {samples}." if samples else "")
        + (f" Weights that are not finite: {', '.join(spoilt[:8])}; an update before spoilt them." if spoilt else "")
    )


def _listed(indices: Tensor) -> str:
    """The first and last of many indices; all of a few."""
    shown = [str(index) for index in indices.tolist()]
    return ", ".join(shown if len(shown) <= 64 else [*shown[:60], "…", *shown[-2:]])
