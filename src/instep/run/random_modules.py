"""Modules whose training depends on how a batch is cut, those that draw and batch norm; and norms that move though frozen."""

from types import CodeType, FunctionType

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

_DRAWS = frozenset(
    {
        "alpha_dropout", "bernoulli", "bernoulli_", "drop_path", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "feature_alpha_dropout", "gumbel_softmax", "multinomial", "normal_", "rand", "rand_like", "randint", "randint_like",
        "randn", "randn_like", "randperm", "rrelu", "rsample", "sample", "stochastic_depth", "uniform_",
    }
)  # fmt: skip


def drawing_kinds(model: nn.Module) -> list[str]:
    """The classes of modules that draw random numbers in training, as far as their options or their code show it."""
    return list(dict.fromkeys(type(module).__name__ for module in model.modules() if _draws(module)))


def has_own_statistics(model: nn.Module) -> bool:
    """Whether a batch norm takes the statistics of each process's own samples."""
    return any(
        isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm) and module.training
        for module in model.modules()
    )


def frozen_norms_that_move(model: nn.Module) -> list[str]:
    """Norms without a weight that trains, in train mode: each batch changes what they do in an evaluation."""
    found = []
    for name, module in model.named_modules():
        has_statistics = isinstance(module, _NormBase) and module.running_mean is not None and module.momentum != 0.0
        if has_statistics and module.training and module.track_running_stats:
            parameters = list(module.parameters())
            if parameters and not any(p.requires_grad for p in parameters):
                found.append(name or type(module).__name__)
    return found


def _draws(module: nn.Module) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    if isinstance(module, nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        return True
    forward = type(module).forward
    is_own = not type(module).__module__.startswith("torch.")
    return is_own and isinstance(forward, FunctionType) and not _DRAWS.isdisjoint(_names(forward.__code__))


def _names(code: CodeType) -> set[str]:
    """The names that a function uses, those of functions in it too."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
