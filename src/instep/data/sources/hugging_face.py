"""Hugging Face: its data sets and its collators, made ready for a model that is called with what a batch has, `model(**batch)`.

A tokenised data set still has its texts, which no forward takes and no collator pads: columns that are no argument of the model
are left out, where nobody's own collate function may want them. What was done is said in a note.
"""

import copy
import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from torch import nn

from instep.data.position import Collate
from instep.errors import DescriptionError
from instep.text import listed

LABELS = ("label", "label_ids")  # what the collators of transformers call labels themselves
FOR_COLLATORS = {  # columns that a collator takes out of the samples by itself
    "DataCollatorForLanguageModeling": ("special_tokens_mask", "offset_mapping"),
    "DataCollatorForWholeWordMask": ("special_tokens_mask", "offset_mapping", "chinese_ref"),
}
VALID_NAMES = ("validation", "valid", "val", "dev", "eval")


class ReadAgain:
    """An iterable data set of theirs that is told its passes, and not asked for its state: a resumed run reads it again."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def set_epoch(self, epoch: int) -> None:
        self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)


class Prepared(NamedTuple):
    """A data set and its collate function as they are used; `notes` say what is not as it was passed."""

    data: Any
    collate: Collate | None
    notes: tuple[str, ...] = ()


def prepare(data: Any, collate: Collate | None, arguments: Collection[str] | None, name: str) -> Prepared:
    """A data set for a model whose forward has these arguments; None: it is not called by name. Other data stays as it is."""
    prepared = _fitted(data, collate, arguments, name)
    if not _has_buffer(data):
        return prepared
    said = (
        f"{name} has a shuffle buffer, which its state_dict() does not keep: a resumed run reads {name} again from its beginning"
    )
    return prepared._replace(data=ReadAgain(with_tensors(prepared.data, collate)), notes=(*prepared.notes, said))


def _fitted(data: Any, collate: Collate | None, arguments: Collection[str] | None, name: str) -> Prepared:
    found, notes = _without_seed(collate)
    is_theirs = collate is not None and is_collator(collate)
    if not is_dataset(data) or (collate is not None and not is_theirs) or (arguments is None and not is_theirs):
        return Prepared(data, found, notes)
    columns = _columns(data)
    if arguments is None:  # an objective may want any column but texts, which no collator pads
        return _selected(data, columns, _texts(data), Prepared(data, found, notes), "its collator cannot pad", name)
    if collate is None and "labels" in arguments and "labels" not in columns:
        label = next((one for one in LABELS if one in columns and one not in arguments), None)
        if label is not None:
            data, columns = data.rename_column(label, "labels"), ["labels" if one == label else one for one in columns]
            notes = (*notes, f"{label} of {name} is given to the model as labels")
    wanted = {*arguments, *(() if collate is None else (*LABELS, *FOR_COLLATORS.get(type(collate).__name__, ())))}
    left = [column for column in columns if column not in wanted]
    if left and len(left) == len(columns):
        raise DescriptionError(
            f"{name} has the columns {listed(columns)}, and the model takes {listed(arguments)}; tokenise it, or rename its "
            "columns."
        )
    return _selected(data, columns, left, Prepared(data, found, notes), "the model does not take", name)


def _selected(data: Any, columns: list[str], left: list[str], prepared: Prepared, why: str, name: str) -> Prepared:
    if not left:
        return prepared
    kept = data.select_columns([column for column in columns if column not in left])
    return prepared._replace(data=kept, notes=(*prepared.notes, f"columns of {name} that {why} are left out: {listed(left)}"))


def arguments_of(model: nn.Module) -> list[str] | None:
    """The names that a model can be called with; None where it does not say."""
    inner: Any = getattr(model, "get_base_model", None)  # of a PEFT model
    models = [model] if inner is None else [model, inner()]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = [one for each in models for one in inspect.signature(each.forward).parameters.values()]
    except (TypeError, ValueError):  # a forward without a signature
        return None
    return list(dict.fromkeys(one.name for one in parameters if one.kind in named)) or None


def is_dataset(data: Any) -> bool:
    """A Dataset or IterableDataset of theirs."""
    is_one = not isinstance(data, Mapping)  # a dictionary of theirs has the same methods
    return is_one and hasattr(data, "with_format") and hasattr(data, "select_columns") and hasattr(data, "column_names")


def is_splits(data: Any) -> bool:
    """A DatasetDict of theirs and its like: a mapping of data sets."""
    return isinstance(data, Mapping) and bool(data) and all(hasattr(part, "column_names") for part in data.values())


def is_collator(collate: Any) -> bool:
    """A collator that is theirs, not somebody's subclass of one."""
    kind = collate if inspect.isfunction(collate) else type(collate)
    return str(getattr(kind, "__module__", "")).partition(".")[0] == "transformers"


def with_tensors(data: Any, collate: Collate | None) -> Any:
    """Their data sets give Python's lists, which collate column by column; asked for tensors they give tensors.

    Their own collators want lists.
    """
    if collate is not None and is_collator(collate):
        return data
    if hasattr(data, "with_format") and hasattr(data, "column_names") and _format(data) is None:
        return data.with_format("torch")
    return data


def has_own_transform(data: Any) -> bool:
    """Whether a data set of theirs was given a transform, which may draw and so is called sample by sample."""
    return hasattr(data, "with_format") and _format(data) == "custom"


def take_splits(train: Any, valid: Any, test: Any) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """A DatasetDict with a split called train as what it holds: its train, and its validation and test where none is passed."""
    if not is_splits(train) or "train" not in train:
        return train, valid, test, ()
    used = {"train": "train"}
    if valid is None and (name := next((one for one in VALID_NAMES if one in train), None)) is not None:
        valid, used["valid"] = train[name], name
    if test is None and "test" in train:
        test, used["test"] = train["test"], "test"
    left = [str(name) for name in train if name not in used.values()]
    said = f"splits that are used: {listed(f'{split!r} as {name}=' for name, split in used.items())}"
    return train["train"], valid, test, (f"{said}{f'; not used: {listed(left)}' if left else ''}",)


def _columns(data: Any) -> list[str]:
    """The columns that it gives; none where nobody knows, as with a transform of its own."""
    if has_own_transform(data):
        return []
    form = getattr(data, "format", None)
    named = form.get("columns") if isinstance(form, Mapping) else data.column_names
    return list(named or ())


def _texts(data: Any) -> list[str]:
    """The columns that hold texts, as far as it says."""
    kinds = {name: getattr(kind, "dtype", None) for name, kind in (getattr(data, "features", None) or {}).items()}
    return [name for name in _columns(data) if kinds.get(name) in ("string", "large_string")]


def _has_buffer(data: Any) -> bool:
    """Whether an iterable one is shuffled in a buffer. Its examples are lost with its state, as its documentation says."""
    inside, seen = [getattr(data, "_ex_iterable", None)], 0
    while inside and seen < 1000:
        one, seen = inside.pop(), seen + 1
        if type(one).__name__ == "BufferShuffledExamplesIterable":
            return True
        inside += [
            part for part in (getattr(one, "ex_iterable", None), *(getattr(one, "ex_iterables", None) or ())) if part is not None
        ]
    return False


def _format(data: Any) -> Any:
    """How it gives its columns: None for Python's lists."""
    form = getattr(data, "format", None)
    if isinstance(form, Mapping):
        return form.get("type")
    return getattr(getattr(data, "_formatting", None), "format_type", None)  # an iterable one does not say it elsewhere


def _without_seed(collate: Any) -> tuple[Any, tuple[str, ...]]:
    """A collator with a seed draws from a generator of its own, so a batch would depend on those that it collated before."""
    if collate is None or not is_collator(collate) or getattr(collate, "seed", None) is None:
        return collate, ()
    other = copy.copy(collate)
    other.seed = other.generator = None
    kind = type(collate).__name__
    return other, (f"seed={collate.seed} of {kind} is not used: what it draws comes from the seed of the run, batch by batch",)
