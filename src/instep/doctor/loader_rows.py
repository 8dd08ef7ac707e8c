"""What the batches and the dataset of a loader tell: class numbers, and which samples a pass gives."""

from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, Subset, SubsetRandomSampler

from instep.doctor.row_keys import class_numbers


def labels_of(found: list[Tensor]) -> Tensor | None:
    """The class numbers of a batch: its last tensor, if that has one for each sample."""
    classes = class_numbers(found[-1]) if len(found) > 1 else None
    return classes if classes is not None and len(classes) == len(found[0]) else None


def base_of(dataset: Any) -> Any:
    """The dataset that subsets were taken of."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def indices(dataloader: DataLoader[Any]) -> frozenset[int] | None:
    """Which samples of the base dataset a pass gives; None where that cannot be told."""
    dataset = dataloader.dataset
    batch_sampler = dataloader.batch_sampler
    sampler = getattr(batch_sampler, "sampler", None) if batch_sampler is not None else dataloader.sampler
    try:
        size = len(dataset)  # type: ignore[arg-type]
        if size > 200_000 or not hasattr(dataset, "__getitem__"):
            return None
        if isinstance(sampler, (SequentialSampler, RandomSampler)) and type(sampler).__module__.startswith("torch."):
            chosen = range(size)
        elif isinstance(sampler, SubsetRandomSampler):
            chosen = [int(index) for index in sampler.indices]  # type: ignore[assignment]
        else:
            return None
        while isinstance(dataset, Subset):
            chosen = [int(dataset.indices[index]) for index in chosen]  # type: ignore[assignment]
            dataset = dataset.dataset
        return frozenset(chosen)
    except (TypeError, NotImplementedError, IndexError):
        return None
