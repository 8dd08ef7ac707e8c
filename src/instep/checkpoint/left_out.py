"""LeftOut: frozen weights that a checkpoint leaves out, since whoever makes the model makes them again: the base of an adapter.

A checkpoint has their names and a hash of each, and the name of the base where the model has one, so that an adapter never goes
onto another base. `FrozenWeights` knows which of a model's weights those are: they took no gradient when the run began, take
none now, and nobody has written to them since.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from instep.errors import CheckpointError
from instep.text import listed, plural

PLACES = 1024  # of a tensor that are looked at for its hash, first and last among them
Described = Mapping[str, Any]  # as state.json keeps it: {"base": …, "weights": {name: hash}}


@dataclass
class FrozenWeights:
    """The weights of a model that a run need not save."""

    model: nn.Module
    _known: dict[str, tuple[Tensor, int, str]] = field(init=False)

    def __post_init__(self) -> None:
        held = self.model.state_dict(keep_vars=True)
        self._known = {name: (p, p._version, hash_of(p)) for name, p in held.items() if _is_frozen(p)}

    def names(self) -> list[str]:
        """Those that are as they were."""
        held = self.model.state_dict(keep_vars=True)
        return [
            name
            for name, (before, version, _) in self._known.items()
            if held.get(name) is before and _is_frozen(before) and before._version == version
        ]

    def describe(self, names: list[str]) -> Described:
        return {"base": base_name(self.model), "weights": {name: self._known[name][2] for name in names}}

    def forget_writes(self) -> None:
        """After a checkpoint was restored that has all weights: those that it left as they were are known again."""
        for name, (before, version, made) in self._known.items():
            if before._version != version and hash_of(before) == made:
                self._known[name] = (before, before._version, made)


def require_same(model: nn.Module, left_out: Described | None) -> list[str]:
    """The names that a checkpoint has no weights for. Raises where those of this model are others than they were."""
    if left_out is None:
        return []
    held = model.state_dict(keep_vars=True)
    weights: Mapping[str, str] = left_out["weights"]
    other = [name for name, made in weights.items() if not isinstance(held.get(name), Tensor) or hash_of(held[name]) != made]
    if other:
        base, now = left_out.get("base"), base_name(model)
        names = f" The base was {base!r}, this model's is {now!r}." if base or now else ""
        raise CheckpointError(
            f"the checkpoint has no frozen weights (save_frozen=False): {plural(len(weights), 'tensor')} that whoever makes the "
            f"model has to make again, and {len(other)} of this model are others: {listed(other, most=4)}.{names} Make the model "
            "from the base that it was trained with."
        )
    return list(weights)


def hash_of(weights: Tensor) -> str:
    """A short hash of a tensor: of its type, its shape, and at most so many of its numbers, spread over it."""
    flat = weights.detach().reshape(-1)
    places = torch.linspace(0, max(0, len(flat) - 1), min(PLACES, len(flat)), dtype=torch.float64).long()
    numbers = flat[places.to(flat.device)].cpu().contiguous()
    made = hashlib.blake2b(f"{weights.dtype} {tuple(weights.shape)}".encode(), digest_size=6)
    made.update(numbers.view(torch.uint8).numpy().tobytes() if len(numbers) else b"")
    return made.hexdigest()


def base_name(model: nn.Module) -> str | None:
    """What a model of Hugging Face was loaded from: "gpt2"; None where it does not say."""
    found = getattr(getattr(model, "config", None), "_name_or_path", None)
    return found if isinstance(found, str) and found else None


def _is_frozen(parameter: Any) -> bool:
    return isinstance(parameter, nn.Parameter) and not parameter.requires_grad and not parameter.is_inference()
