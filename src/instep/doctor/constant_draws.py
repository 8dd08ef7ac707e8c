"""Random numbers that are all alike, for forwards that are compared with each other."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name


class ConstantDraws(TorchFunctionMode):
    """Random numbers that are all alike: 0 for a normal one, a half for a uniform one, the likelier of two, the first of many."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _DRAWS and _is_torchs(func):
            return _DRAWS[name](*args, **{key: value for key, value in kwargs.items() if key != "generator"})
        if name.endswith("dropout") and len(args) > 1 and _is_torchs(func):
            return args[0]
        return func(*args, **kwargs)


def _is_torchs(func: Any) -> bool:
    return (resolve_name(func) or "torch").startswith("torch")


def _like(value: float) -> Callable[..., Tensor]:
    return lambda input, **options: torch.full_like(input, value, **options)


def _sized(value: float) -> Callable[..., Tensor]:
    def make(*size: Any, **options: Any) -> Tensor:
        given = size or (options.pop("size"),)
        return torch.full(given[0] if len(given) == 1 and not isinstance(given[0], int) else given, value, **options)

    return make


def _filled(value: Callable[..., Any]) -> Callable[..., Tensor]:
    return lambda tensor, *args, **options: tensor.fill_(value(*args, **options))


def _normal(mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> Tensor:
    if size is not None:
        return torch.full(size, float(mean), **options)
    return mean.clone() if isinstance(mean, Tensor) else torch.full_like(std, float(mean))


def _multinomial(input: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Tensor:
    if replacement:
        return input.argmax(-1, keepdim=True).expand(*input.shape[:-1], num_samples).clone()
    return input.topk(num_samples, dim=-1).indices


def _randint(*args: Any, **options: Any) -> Tensor:
    low, size = (
        (args[0], args[2]) if len(args) > 2 else (options.pop("low", 0), args[1] if len(args) > 1 else options.pop("size"))
    )
    options.pop("high", None)
    return torch.full(size, low, **{"dtype": torch.int64, **options})


def _bernoulli(input: Tensor, p: float | None = None, **_: Any) -> Tensor:
    return (input > 0.5).to(input.dtype) if p is None else torch.full_like(input, float(p > 0.5))


def _fill_bernoulli(tensor: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    return tensor.copy_((p > 0.5).to(tensor.dtype)) if isinstance(p, Tensor) else tensor.fill_(p > 0.5)


_DRAWS: dict[str, Callable[..., Tensor]] = {
    "randn_like": _like(0.0),
    "rand_like": _like(0.5),
    "randn": _sized(0.0),
    "rand": _sized(0.5),
    "normal": _normal,
    "bernoulli": _bernoulli,
    "poisson": lambda input, **_: input.round(),
    "multinomial": _multinomial,
    "randint": _randint,
    "randperm": torch.arange,
    "normal_": _filled(lambda mean=0.0, std=1.0, **_: mean),
    "uniform_": _filled(lambda a=0.0, b=1.0, **_: (a + b) / 2),
    "exponential_": _filled(lambda lambd=1.0, **_: 1 / lambd),
    "bernoulli_": _fill_bernoulli,
}
