"""A hook of ours next to one of the user's on the same optimizer, for one call."""

from typing import Any

import torch


class Beside:
    """A hook of the user's with ours next to it: in its place for one call."""

    def __init__(self, hooks: dict[int, Any], key: int, ours: Any, *, first: bool) -> None:
        hook = hooks[key]
        self.hook: Any = hook.hook if isinstance(hook, Beside) else hook  # the last step was never finished
        self._hooks, self._key, self._ours, self._first = hooks, key, ours, first
        hooks[key] = self

    def __call__(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._hooks.get(self._key) is self:
            self._hooks[self._key] = self.hook
        if self._first:
            self._ours(optimizer, args, kwargs)
        result = self.hook(optimizer, args, kwargs)
        if not self._first:
            self._ours(optimizer, *(result if isinstance(result, tuple) and len(result) == 2 else (args, kwargs)))
        return result
