"""What the graph of a loss shows: a softmax before a loss that takes a softmax itself, scores where logarithms are expected.

The loss of the first update is looked at, before its backward. With `loss=` it is refused: model and loss do not fit together. In
an objective that somebody wrote it may be meant, so it is said there.
"""

from typing import Any

from torch import Tensor

_VIEWS = frozenset(
    f"{name}Backward{number}"
    for name in ("View", "UnsafeView", "ReshapeAlias", "Permute", "Transpose", "T", "Squeeze", "Unsqueeze", "Clone", "ToCopy")
    for number in (0, 1, 2)
)
_SQUASHED = {"SoftmaxBackward0": "softmax", "SigmoidBackward0": "sigmoid"}
_LAYERS = ("AddmmBackward0", "MmBackward0", "ConvolutionBackward0", "LinearBackward0")
_NLL = ("NllLossBackward0", "NllLoss2DBackward0")


def mistake_in(value: Tensor) -> str | None:
    """What is wrong with a loss that was just computed; None for nothing."""
    node = value.grad_fn
    if node is None:
        return None
    inside = _before(node)
    name = _name(inside)
    if node.name() == "BinaryCrossEntropyWithLogitsBackward0" and name in _SQUASHED:
        return (
            f"binary_cross_entropy_with_logits gets the result of a {_SQUASHED[name]} and takes the sigmoid of it once more: its "
            f"gradients nearly vanish. Leave the {_SQUASHED[name]} out of the model, or use binary_cross_entropy."
        )
    if node.name() not in _NLL:
        return None
    if name == "LogSoftmaxBackward0":
        squashed = _SQUASHED.get(_name(_before(inside)))
        return squashed and (
            f"cross_entropy gets the result of a {squashed} and takes the softmax of it once more: its gradients nearly vanish. "
            f"Leave the {squashed} out of the model; apply it to predictions."
        )
    if name in _SQUASHED or name in _LAYERS:
        given = f"the result of a {_SQUASHED[name]}" if name in _SQUASHED else "scores straight from a layer"
        return f"nll_loss takes log-probabilities and gets {given}; end the model with log_softmax, or use cross_entropy."
    return None


def _before(node: Any) -> Any:
    """The operation that gave the first input of a node, past views and copies."""
    for _ in range(16):
        node = node.next_functions[0][0] if node is not None and node.next_functions else None
        if _name(node) not in _VIEWS:
            return node
    return None


def _name(node: Any) -> str:
    return "" if node is None else str(node.name())
