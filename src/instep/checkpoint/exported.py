"""Exported models: a model as a graph of operations with its weights, `.pt2`, which needs no class of the user's to run.

What is written was run first, on other batches than the one it was traced with, and gave what the model gives; then the file was
read back and run on random inputs.
"""

import copy
import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from instep.checkpoint.durable import save_as
from instep.checkpoint.interchange import load_model, save_model
from instep.data.batch_layout import BY_SAMPLE
from instep.data.inputs import arguments, inputs_of
from instep.data.structure import columns, map_columns, size
from instep.errors import CheckpointError

UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")


def copy_for_export(model: nn.Module, batches: Sequence[Any]) -> tuple[nn.Module, list[Any]]:
    """A copy of the model in eval mode, and examples of batches, all on the CPU."""
    batches = [map_columns(lambda column: column.cpu() if isinstance(column, Tensor) else column, batch) for batch in batches]
    if (size(batches[0]) or 0) < 2:
        raise CheckpointError("an export needs an example of 2 samples or more: with one, torch takes the 1 for a constant.")
    return copy.deepcopy(_bare(model)).cpu().eval(), batches


class Program(NamedTuple):
    """A model as a program of torch.export, and what it takes."""

    program: Any  # torch's ExportedProgram
    call: str  # its arguments, as source
    shapes: dict[str, list[int | str]]  # of its inputs; "any" for a size that is free
    fixed: list[str]  # inputs of which a size is not free that differs in the data


def export_model(model: nn.Module, batches: Sequence[Any]) -> Program:
    """What `copy_for_export` gave, for batches of any size. The first batch is the example.

    Sizes beside the batch's that differ in the others, as the lengths of padded sequences do, are free too, where the model lets
    them be; else they are those of the example.
    """
    batch, others = batches[0], batches[1:]
    sizes = varying_sizes(batches)
    try:
        program = _traced(model, batch, sizes)
    except CheckpointError:
        if not any(sizes.values()):
            raise
        program, others = _traced(model, batch, {}), ()
    for samples in (1, size(batch) or 2):
        require_same(model, program.module(), BY_SAMPLE.piece(batch, 0, samples), samples)
    for other in others:
        require_same(model, program.module(), other, size(other) or 0)
    return _described(model, program, batch, sizes)


def _traced(model: nn.Module, batch: Any, sizes: Mapping[str, set[int]]) -> Any:
    args, kwargs = arguments_of(model, batch)
    dynamic: Any = {name: _dimensions(value, sizes, name) for name, value in kwargs.items()} or tuple(
        _dimensions(value, sizes, str(place)) for place, value in enumerate(args)
    )
    try:
        with quietly(), torch.no_grad():
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic)
    except Exception as error:
        cause = None if UNKNOWN.search(str(error)) else error  # then the line says it all
        raise CheckpointError(f"torch.export cannot take {type(model).__name__}: {_reason(error)}") from cause


def varying_sizes(batches: Sequence[Any]) -> dict[str, set[int]]:
    """Which dimensions of an input, beside that of the batch, differ from one batch to another; by the name of the input."""
    shapes = [input_shapes(batch) for batch in batches]
    return {
        name: {
            dim for dim in range(1, len(shape)) if len({each[name][dim] for each in shapes if len(each.get(name, ())) > dim}) > 1
        }
        for name, shape in shapes[0].items()
    }


def input_shapes(batch: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor that the model is given, by its place or name."""
    args, kwargs = arguments(inputs_of(batch))
    named = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    return {name: tuple(value.shape) for name, value in named.items() if isinstance(value, Tensor)}


def write_exported(path: Path, model: nn.Module, batches: Sequence[Any], say: Callable[[Program], Mapping[str, str]]) -> Program:
    """Write a model, with what `say` tells of it beside it, which `torch.export.load` gives back as extra files."""
    model, batches = copy_for_export(model, batches)
    made = export_model(model, batches)
    with save_as(path) as beside, quietly():
        torch.export.save(made.program, beside, extra_files=dict(say(made)))
        require_same_on_random(model, torch.export.load(beside).module(), batches[0])
    return made


def _described(model: nn.Module, program: Any, batch: Any, varying: Mapping[str, set[int]]) -> Program:
    """How the program is called, and which sizes it leaves free."""
    args, kwargs = arguments_of(model, batch)
    names = [*map(str, range(len(args))), *kwargs]
    given = set(program.graph_signature.user_inputs)
    taken = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in given]
    shapes: dict[str, list[int | str]] = {}
    if len(taken) == len(names):  # no input is a structure of several
        known = ((name, one) for name, one in zip(names, taken, strict=True) if isinstance(one, Tensor))
        shapes = {name: [length if isinstance(length, int) else "any" for length in one.shape] for name, one in known}
    fixed = [name for name, sizes in shapes.items() if any(sizes[dim] != "any" for dim in varying.get(name, ()))]
    call = ", ".join(
        [*(["inputs"] if len(args) == 1 else [f"input{place}" for place in range(len(args))]), *(f"{name}=…" for name in kwargs)]
    )
    return Program(program, call, shapes, fixed)


def write_state(path: Path, model: nn.Module) -> None:
    """Write the weights alone, as safetensors or for `torch.load`, by the ending of the path."""
    model = copy.deepcopy(_bare(model)).cpu()
    with save_as(path) as beside:
        save_model(model, beside)
        empty = copy.deepcopy(model)
        for tensor in empty.state_dict().values():
            if isinstance(tensor, Tensor):
                tensor.detach().zero_()
        load_model(empty, beside)
        found = empty.state_dict()
        for name, value in model.state_dict().items():
            if isinstance(value, Tensor) and not torch.allclose(value, found[name], rtol=0, atol=0, equal_nan=True):
                raise CheckpointError(f"{path} does not give {name} back as it was.")


def _bare(model: nn.Module) -> nn.Module:
    """Without what DistributedDataParallel and torch.compile put round it."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return _bare(model.module)
    inner = model._modules.get("_orig_mod")
    return model if inner is None else _bare(inner)


def arguments_of(model: nn.Module, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What predictions call the model with; labels that it can do without are for the loss."""
    args, named = arguments(inputs_of(batch))
    known = inspect.signature(model.forward).parameters
    if "labels" in named and "labels" in known and known["labels"].default is None:
        del named["labels"]
    return args, named


def _dimensions(value: Any, sizes: Mapping[str, set[int]], name: str) -> Any:
    """The batch dimension of every column is free, and those that vary."""
    if isinstance(value, Tensor):
        return dict.fromkeys({0, *sizes.get(name, ())}, torch.export.Dim.DYNAMIC) if value.ndim else None
    if isinstance(value, Mapping):
        return {key: _dimensions(part, {}, name) for key, part in value.items()}
    return type(value)(_dimensions(part, {}, name) for part in value) if isinstance(value, tuple | list) else None


def require_same_on_random(model: nn.Module, exported: Callable[..., Any], batch: Any, *, tolerance: float = 1e-6) -> None:
    """Run both on batches of several sizes with random inputs; raises where they give different outputs."""
    generator = torch.Generator().manual_seed(0)
    for samples in (1, 2, 5):
        require_same(model, exported, random_batch(batch, samples, generator), samples, tolerance=tolerance)


def random_batch(batch: Any, samples: int, generator: torch.Generator) -> Any:
    """Random inputs like those of an example: numbers as widely spread; of whole numbers, such as tokens, those that occur."""

    def draw(column: Any) -> Any:
        if not isinstance(column, Tensor) or not column.ndim:
            return column
        shape = (samples, *column.shape[1:])
        if column.is_floating_point():
            spread, middle = column.double().std(correction=0), column.double().mean()
            return (middle + spread * torch.randn(shape, generator=generator, dtype=torch.float64)).to(column.dtype)
        if column.numel() and not column.is_complex() and column.max() > 1:
            return column.flatten()[torch.randint(column.numel(), shape, generator=generator)]
        return column[torch.randint(len(column), (samples,), generator=generator)]  # a mask: some of its rows

    return map_columns(draw, batch)


def require_same(model: nn.Module, exported: Callable[..., Any], batch: Any, samples: int, *, tolerance: float = 1e-6) -> None:
    """Raises where the exported model gives other outputs than the model; the tolerance goes with the size of the outputs."""
    args, kwargs = arguments_of(model, batch)
    with torch.no_grad(), quietly():
        expected, found = model(*args, **kwargs), exported(*args, **kwargs)
    tensors = [one for one in columns(expected) if isinstance(one, Tensor)]
    for ours, theirs in zip(tensors, (one for one in columns(found) if isinstance(one, Tensor)), strict=True):
        largest = max(1.0, float(ours.abs().nan_to_num(0.0, 0.0).max())) if ours.numel() and not ours.is_complex() else 1.0
        if not torch.allclose(ours, theirs, rtol=1e-4, atol=tolerance * largest, equal_nan=True):
            raise CheckpointError(
                f"the exported {type(model).__name__} gives other outputs than the model for a batch of {samples}; "
                "does it draw random numbers in eval mode, or choose its way by its values?"
            )


def _reason(error: Exception) -> str:
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    unknown = UNKNOWN.search(str(error))
    if unknown is not None:
        return (
            f"its forward takes no {unknown[1]!r}, which the batches hold; where that is the target, say so: "
            f"data.source(…, target={unknown[1]!r})."
        )
    fixed = next((line for line in lines if "specialized it to be a constant" in line), None)
    if fixed is not None:
        return "it fixes the size of the batch somewhere in forward; use -1 or x.shape[0] where the number stands."
    return lines[0] if lines else type(error).__name__


@contextmanager
def quietly() -> Iterator[None]:
    """Without what torch says to those who develop it."""
    level = logging.getLogger("torch").level
    logging.getLogger("torch").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch").setLevel(level)
