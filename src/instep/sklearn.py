"""Estimators of scikit-learn that train a PyTorch model: `Classifier` and `Regressor`, for pipelines, searches and scores.

Each `fit` makes a Trainer and runs it; arguments that are not listed in a signature are the Trainer's own. This file owns what
goes between arrays and tensors: types, labels of any kind, shapes of outputs. It needs scikit-learn (the extra `sklearn`).
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from instep import keys
from instep.data.device import choose
from instep.data.feed import float_type
from instep.data.loading.loader import Loader
from instep.data.sources.recognize import as_source
from instep.errors import DescriptionError
from instep.extras import install_command
from instep.loop.evaluate import evaluating, predict
from instep.loop.torch_losses import known
from instep.run.argument_names import refuse_unknown
from instep.run.options import NAMES
from instep.trainer import Trainer

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"instep.sklearn needs scikit-learn; type: {install_command('sklearn')}") from error

__all__ = ["Classifier", "Regressor"]

Array = npt.NDArray[Any]
Build = Callable[..., nn.Module]
_OWN = {"model", "loss", "optimizer", "epochs", "batch_size", "schedule", "valid", "patience", "device", "progress"}
# What the Trainer takes that an estimator decides itself, or has under another name.
_NOT_PASSED = {"train": "fit(X, y)", "test": "score(X, y)", "objective": "loss=", "seed": "random_state="}
_TRAINERS = set(NAMES) - _OWN - set(_NOT_PASSED) - {"class_weights"}
_SETTING = "model__"  # before the settings of a function that makes the model


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common."""

    def __init__(
        self,
        model: nn.Module | Build,
        *,
        loss: Any = None,
        optimizer: Any = torch.optim.AdamW,
        lr: float | None = 1e-3,
        epochs: int = 20,
        batch_size: int = 64,
        schedule: Any = None,
        valid: Any = None,
        patience: int | None = None,
        dtype: Any = "auto",
        random_state: Any = 0,
        device: str | torch.device = "auto",
        progress: bool | None = False,
        **more: Any,
    ) -> None:
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.schedule = schedule
        self.valid = valid
        self.patience = patience
        self.dtype = dtype
        self.random_state = random_state
        self.device = device
        self.progress = progress
        for name, value in more.items():
            _require_known(name, type(self))
            setattr(self, name, value)

    # --- Parameters: those of the signature, settings of the model, and arguments of the Trainer

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters; with `deep` also the settings that a function for the model has and that nothing was said of."""
        params: dict[str, Any] = super().get_params(deep=False)
        params |= {name: vars(self)[name] for name in vars(self) if name.startswith(_SETTING) or name in _TRAINERS}
        return {**_defaults(self.model), **params} if deep else params

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name: `lr`, `model__width` for a setting of the model, `clip_norm` of the Trainer."""
        named = super().get_params(deep=False)
        for name, value in params.items():
            if name not in named:
                _require_known(name, type(self))
            setattr(self, name, value)
        return self

    # --- Training

    def _train(self, x: Array, target: Tensor, outputs: int, **options: Any) -> Any:
        """Train the model on these inputs and targets, one row a sample; the fitted parts end in `_`."""
        seed = self._seed()
        model = self._make_model(x, outputs, seed)
        self._dtype_ = self._input_type(model, x)
        inputs = self._as_input(x)
        shape = _output_shape(model, inputs)
        self._require_outputs(shape, outputs)
        target = _in_shape(target, shape, float_type(model) or torch.float32)
        lr = {} if self.lr is None else {"lr": self.lr}
        trainer = Trainer(
            model,
            loss=self._loss(),
            optimizer=self.optimizer(model.parameters(), **lr),
            train=(inputs, target),
            valid=self._validation(target),
            epochs=self.epochs,
            batch_size=self.batch_size,
            schedule=self.schedule,
            patience=self.patience,
            seed=seed,
            device=self.device,
            progress=self.progress,
            **{name: value for name, value in vars(self).items() if name in _TRAINERS},
            **options,
        )
        self.history_ = trainer.fit()
        self.model_ = _used(trainer)
        self._seed_ = seed
        return self

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _make_model(self, x: Array, outputs: int, seed: int) -> nn.Module:
        """A copy of the model that was passed, or what the function makes, under the key of the seed."""
        settings = {name.removeprefix(_SETTING): value for name, value in vars(self).items() if name.startswith(_SETTING)}
        if isinstance(self.model, nn.Module):
            if settings:
                raise DescriptionError(
                    f"model__{next(iter(settings))}= is a setting of a function, and model is a module already."
                )
            return copy.deepcopy(self.model)
        if not callable(self.model):
            raise DescriptionError(
                f"model={self.model!r} is no nn.Module; pass one, or a function (inputs, outputs) that makes one."
            )
        with keys.fork_rng():
            keys.seed_all(keys.for_build(seed))
            made: nn.Module = self.model(x.shape[1], outputs, **settings)
        if not isinstance(made, nn.Module):
            raise DescriptionError(f"model= returned a {type(made).__name__}; it must return an nn.Module.")
        return made

    def _validation(self, target: Tensor) -> Any:
        """A share of the training data, or data of its own, treated like it."""
        if not isinstance(self.valid, tuple):
            return self.valid
        x, y = self.valid
        x = validate_data(self, x, reset=False, dtype="numeric", allow_nd=True)
        return self._as_input(x), self._target_of(y).to(target.dtype).reshape(len(x), *target.shape[1:])

    def _require_outputs(self, shape: tuple[int, ...], outputs: int) -> None:
        """Raises where outputs of this shape a row cannot be what is predicted; () is not known."""

    def _target_of(self, y: Any) -> Tensor:
        raise NotImplementedError

    def _loss(self) -> Any:
        raise NotImplementedError

    # --- Inputs and outputs

    def _input_type(self, model: nn.Module, x: Array) -> torch.dtype:
        """The type of the model's numbers; whole numbers stay whole for a model with an embedding."""
        if self.dtype != "auto":
            return self.dtype if isinstance(self.dtype, torch.dtype) else torch.from_numpy(np.empty(0, self.dtype)).dtype
        embeds = any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for module in model.modules())
        return torch.int64 if embeds and x.dtype.kind in "iu" else float_type(model) or torch.float32

    def _as_input(self, x: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x) if x.flags.writeable else x.copy()).to(self._dtype_)

    def _outputs(self, X: Any) -> Tensor:
        """What the fitted model gives for each row, as an evaluation of the Trainer would get it."""
        check_is_fitted(self, "model_")
        x = validate_data(self, X, reset=False, dtype="numeric", allow_nd=True)
        device = choose(self.device).device
        source = as_source(self._as_input(x), "X")
        loader = Loader(source, batch_size=self.batch_size, seed=keys.for_evaluation(self._seed_), device=device, shuffle=False)
        outputs = predict(self.model_.to(device), loader, seed=self._seed_, device=device)
        if not isinstance(outputs, Tensor):
            raise DescriptionError(f"the model gives a {type(outputs).__name__}; an estimator needs one tensor of outputs.")
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        """Weights are pickled on the CPU, so that a machine without the device can load them."""
        state = dict(super().__getstate__())
        if "model_" in state and any(p.device.type != "cpu" for p in self.model_.parameters()):
            state["model_"] = copy.deepcopy(self.model_).cpu()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier: labels of any kind, `fit`, `predict`, `predict_proba`, `score`.

        build = lambda inputs, outputs, width=32: nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))
        classifier = Classifier(build, epochs=10, model__width=64)
        GridSearchCV(make_pipeline(StandardScaler(), classifier), {"classifier__model__width": [16, 64]}).fit(X, y)

    `model` is an nn.Module, of which each `fit` trains a copy, or a function `(inputs, outputs)` that makes one, as a class like
    `nn.Linear` does; its further parameters are `model__…`. `optimizer` is called with the parameters and `lr`. `loss` is torch's
    `cross_entropy` unless it is said; with `binary_cross_entropy_with_logits` a model of two classes has one output.
    `class_weight` is "balanced", or a weight by label. `valid=0.1` holds out a share, for `patience=`. `dtype="auto"`
    gives the model its own type. All further arguments of the Trainer are taken too: `ema=`, `clip_norm=`, `folder=`, …

    Fitted, it has `classes_`, `model_`, `history_`, `n_features_in_`, and `feature_names_in_` after a frame.

    >>> X, y = np.array([[0.0], [1.0]] * 10), np.array(["low", "high"] * 10)
    >>> Classifier(nn.Linear, lr=0.5, epochs=20).fit(X, y).predict([[0.0], [1.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        model: nn.Module | Build,
        *,
        loss: Any = None,
        optimizer: Any = torch.optim.AdamW,
        lr: float | None = 1e-3,
        epochs: int = 20,
        batch_size: int = 64,
        schedule: Any = None,
        valid: Any = None,
        patience: int | None = None,
        class_weight: Any = None,
        dtype: Any = "auto",
        random_state: Any = 0,
        device: str | torch.device = "auto",
        progress: bool | None = False,
        **more: Any,
    ) -> None:
        super().__init__(
            model,
            loss=loss,
            optimizer=optimizer,
            lr=lr,
            epochs=epochs,
            batch_size=batch_size,
            schedule=schedule,
            valid=valid,
            patience=patience,
            dtype=dtype,
            random_state=random_state,
            device=device,
            progress=progress,
            **more,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Train on rows X with a label each."""
        X, y = validate_data(self, X, y, dtype="numeric", allow_nd=True)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_.tolist()[0]!r}; a classifier needs two or more.")
        single = self._is_single()
        if single and len(self.classes_) != 2:
            raise DescriptionError(
                f"this loss has one output for two classes, and y has {len(self.classes_)}; use cross_entropy."
            )
        target = self._target_of(y)
        outputs = 1 if single else len(self.classes_)
        self._train(X, target, outputs, class_weights=self._class_weights())
        return self

    def predict(self, X: Any) -> Array:
        """The most probable label of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(1)])

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`."""
        outputs = self._outputs(X)
        kind = _compares(self._loss())
        if kind in ("logits", "probabilities"):
            ones = outputs.reshape(len(outputs)).double()
            ones = ones.sigmoid() if kind == "logits" else ones
            return torch.stack([1 - ones, ones], 1).numpy()
        if outputs.ndim != 2 or outputs.shape[1] != len(self.classes_):
            raise DescriptionError(
                f"the model gives outputs of shape {tuple(outputs.shape)} for {len(self.classes_)} classes; it needs one a class."
            )
        outputs = outputs.double()
        found: Array = (outputs.exp() if kind == "log-probabilities" else outputs.softmax(1)).numpy()
        return found

    def _loss(self) -> Any:
        return cross_entropy if self.loss is None else self.loss

    def _require_outputs(self, shape: tuple[int, ...], outputs: int) -> None:
        if len(shape) == 1 and shape != (outputs,):
            raise DescriptionError(
                f"the model gives {shape[0]} outputs a row for {len(self.classes_)} classes; it needs {outputs}. A function "
                "(inputs, outputs) that makes the model is told so."
            )

    def _is_single(self) -> bool:
        return _compares(self._loss()) in ("logits", "probabilities")

    def _target_of(self, y: Any) -> Tensor:
        y = column_or_1d(y)
        codes = np.searchsorted(self.classes_, y)
        wrong = (codes == len(self.classes_)) | (self.classes_[np.minimum(codes, len(self.classes_) - 1)] != y)
        if wrong.any():
            raise ValueError(f"the label {y[wrong].tolist()[0]!r} is no class of the training data.")
        numbers = torch.from_numpy(codes.astype(np.int64))
        return numbers.double() if self._is_single() else numbers

    def _class_weights(self) -> Any:
        """By label, as the Trainer takes them by number."""
        if not isinstance(self.class_weight, Mapping):
            return self.class_weight
        strange = [label for label in self.class_weight if label not in self.classes_]
        if strange:
            raise ValueError(f"class_weight= has the label {strange[0]!r}, which y does not have.")
        return [float(self.class_weight.get(label, 1.0)) for label in self.classes_.tolist()]


class Regressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor: one number a row, or several; `fit`, `predict`, `score`.

    The arguments are those of `Classifier` but for `class_weight`; `loss` is torch's `mse_loss` unless it is said. A model for
    one number a row may give (rows,) or (rows, 1).

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Regressor(nn.Linear, lr=0.1, epochs=200).fit(X, 2 * X[:, 0]).predict([[4.0]]).round().tolist()
    [8.0]
    """

    def fit(self, X: Any, y: Any) -> "Regressor":
        """Train on rows X with a number, or several, each."""
        X, y = validate_data(self, X, y, dtype="numeric", allow_nd=True, multi_output=True, y_numeric=True)
        target = self._target_of(y)
        self._is_column_ = target.ndim == 1
        self._train(X, target, 1 if target.ndim == 1 else target.shape[1])
        return self

    def predict(self, X: Any) -> Array:
        """What the model gives for each row, in the shape of y."""
        outputs = self._outputs(X)
        found: Array = (outputs.reshape(len(outputs)) if self._is_column_ else outputs).double().numpy()
        return found

    def _loss(self) -> Any:
        return mse_loss if self.loss is None else self.loss

    def _target_of(self, y: Any) -> Tensor:
        y = check_array(y, ensure_2d=False, dtype=np.float64)
        return torch.from_numpy(np.array(y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _require_known(name: str, kind: type) -> None:
    """Raises for a parameter that there is not, with what to use in its place."""
    if name.startswith(_SETTING) or name in _TRAINERS:
        return
    if name in _NOT_PASSED:
        raise DescriptionError(f"{kind.__name__} has no parameter {name}; use {_NOT_PASSED[name]}.")
    if name == "class_weights":
        raise DescriptionError(f"{kind.__name__} has no parameter class_weights; use class_weight= of a Classifier.")
    refuse_unknown([name], [*inspect.signature(kind).parameters, *sorted(_TRAINERS)], kind.__name__)


def _defaults(model: Any) -> dict[str, Any]:
    """The settings of a function for the model, with their defaults."""
    if isinstance(model, nn.Module) or not callable(model):
        return {}
    try:
        parameters = list(inspect.signature(model).parameters.values())[2:]
    except (TypeError, ValueError):
        return {}
    return {f"{_SETTING}{one.name}": one.default for one in parameters if one.default is not inspect.Parameter.empty}


def _compares(loss: Any) -> str | None:
    counted = known(loss) if callable(loss) else None
    return None if counted is None else counted.compares


def _output_shape(model: nn.Module, inputs: Tensor) -> tuple[int, ...]:
    """The shape of the output for a sample, from a forward of two of a copy of the model; () where it is no tensor.

    A forward that fails gives () too: the Trainer makes it again, and says which layer got what.
    """
    some = inputs[:2].to(next((p.device for p in model.parameters()), inputs.device))
    copied, output = copy.deepcopy(model), None
    with keys.fork_rng(), evaluating(copied), contextlib.suppress(Exception):
        output = copied(some)
    return tuple(output.shape[1:]) if isinstance(output, Tensor) and output.ndim else ()


def _in_shape(target: Tensor, output: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers in the type of the outputs, and one a row in their shape: (rows,) or (rows, 1). Class numbers as they are."""
    if not target.is_floating_point():
        return target
    return (target.unsqueeze(1) if target.ndim == 1 and output == (1,) else target).to(dtype)


def _used(trainer: Trainer) -> nn.Module:
    """The trained model with the weights that are used, the averaged ones where the monitored value judges them."""
    run = trainer.run
    weights = run.weights()
    model: nn.Module = trainer.model
    if run.averages.have_begun(weights) and not run.options.restore_best:
        model.load_state_dict(run.evaluator.averaged_state(weights))
    return model.eval()
