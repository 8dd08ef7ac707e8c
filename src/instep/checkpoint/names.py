"""Names of weights, and the prefixes of wrappers in them: `module.` of DistributedDataParallel, `_orig_mod.` of torch.compile.

Files get the names of the bare model. Names that are read are matched with those of the model as they are, and without such
prefixes where that makes more of them match. A layer that somebody called `module` keeps its name where that is what matches.
"""

from collections.abc import Collection, Iterable, Iterator

from torch import nn

PREFIXES = ("module", "_orig_mod")
Names = dict[str, str]  # a name as it is -> the name it goes by


def bare_names(model: nn.Module) -> Names:
    """The names in `model.state_dict()`, each with the name that it would have without wrappers round the model or its parts.

    >>> bare_names(nn.DataParallel(nn.Linear(2, 2)))
    {'module.weight': 'weight', 'module.bias': 'bias'}
    """
    wrapped = {
        f"{name}.module".removeprefix(".")
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel)
    }
    return {name: _without_wrappers(name, wrapped) for name in model.state_dict(keep_vars=True)}


def match(model: Iterable[str], file: Iterable[str]) -> Names:
    """For each name of the file the name in the model that it goes with, for those that have one.

    >>> match(["a.weight", "a.bias"], ["module._orig_mod.a.weight", "module._orig_mod.a.bias"])
    {'module._orig_mod.a.weight': 'a.weight', 'module._orig_mod.a.bias': 'a.bias'}
    """
    best: Names = {}
    for ours, theirs in _by_effort(list(model), list(file)):
        by_form = {form: name for name, form in ours.items()}
        found = {name: by_form[form] for name, form in theirs.items() if form in by_form}
        if len(found) > len(best):
            best = found
        if len(best) == len(theirs):
            break
    return best


def _without_wrappers(name: str, wrapped: Collection[str]) -> str:
    parts = name.split(".")
    kept = [part for index, part in enumerate(parts) if part != "_orig_mod" and ".".join(parts[: index + 1]) not in wrapped]
    return ".".join(kept)


def _by_effort(model: list[str], file: list[str]) -> Iterator[tuple[Names, Names]]:
    """Pairs of forms, the least changed first: so a repair is only taken where more names match with it than without."""
    ours, theirs = list(_forms(model)), list(_forms(file))
    places = [(i, j) for i in range(len(ours)) for j in range(len(theirs))]
    for i, j in sorted(places, key=sum):
        yield ours[i], theirs[j]


def _forms(names: list[str]) -> Iterator[Names]:
    """The names as they are, without the prefix that all have, without the next one, …, and without any anywhere."""
    form = {name: name for name in names}
    yield form
    while names and (prefix := _common_prefix(list(form.values()))):
        form = {name: short.removeprefix(prefix) for name, short in form.items()}
        yield form
    for dropped in (("_orig_mod",), PREFIXES):
        thinned = {name: ".".join(part for part in name.split(".") if part not in dropped) for name in names}
        if len(set(thinned.values())) == len(names) and thinned != form:
            yield thinned


def _common_prefix(names: list[str]) -> str | None:
    for prefix in PREFIXES:
        if all(name.startswith(f"{prefix}.") for name in names):
            return f"{prefix}."
    return None
