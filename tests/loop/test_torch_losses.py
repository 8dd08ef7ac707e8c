"""The counts of torch's losses: any cut of a batch gives the value and the gradient of the whole."""

import doctest
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import loss as torch_losses
from torch.utils._python_dispatch import TorchDispatchMode

from complaints import complaints
from instep.errors import DescriptionError, ObjectiveError
from instep.loop import loss_counts
from instep.loop import torch_losses as losses
from instep.loop.torch_losses import Counted, known

Loss = Callable[..., Any]
Batch = tuple[Any, Any]

N = 10  # samples in a batch; no other dimension has this size, so it names the one to cut
RAGGED = (5, 1, 4)
IGNORED = (0, 5, 7)  # places of ignored targets: the second piece has no other

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a target size:UserWarning"),
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total:UserWarning"),
]


# --- Data. Each draw is the same in every test.


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def other(*shape: int) -> Tensor:
    """Like `normal`, other numbers."""
    return normal(*shape, 2)[..., 0]


def positive(*shape: int) -> Tensor:
    return normal(*shape).abs() + 0.1


def signs(*shape: int) -> Tensor:
    return other(*shape).sign()


def labels(*shape: int, ignored: int | None = None) -> Tensor:
    target = torch.randint(5, shape, generator=torch.Generator().manual_seed(sum(shape)))
    if ignored is not None:
        target[list(IGNORED)] = ignored
    return target


def classes(ignored: int | None = None, *space: int) -> Callable[[], Batch]:
    return lambda: (normal(N, 5, *space).log_softmax(1), labels(N, *space, ignored=ignored))


def soft(*space: int) -> Callable[[], Batch]:
    return lambda: (normal(N, 5, *space), other(N, 5, *space).softmax(1))


def regression(*target: int) -> Callable[[], Batch]:
    return lambda: (normal(N, 3), other(*target))


def multilabel() -> Batch:
    target = torch.full((N, 5), -1)
    target[:, 0] = labels(N)
    target[::2, 1] = (target[::2, 0] + 1) % 5
    return normal(N, 5), target


def triplet() -> Batch:
    return (normal(N, 4), other(N, 4), normal(N, 4).flip(0)), None


def gaussian(*variance: int) -> Callable[[], Batch]:
    return lambda: ((normal(N, 3), positive(*variance)), other(N, 3))


def sequences() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    input_lengths = torch.tensor([12, 11, 9, 12, 10, 8, 12, 12, 7, 11])
    target_lengths = torch.tensor([3, 1, 2, 4, 4, 2, 3, 0, 3, 1])
    return normal(12, N, 6).log_softmax(2), labels(N, 4) + 1, input_lengths, target_lengths


def lengths_in_target() -> Batch:
    log_probs, targets, input_lengths, target_lengths = sequences()
    return log_probs, (targets, input_lengths, target_lengths)


def lengths_in_output() -> Batch:
    log_probs, targets, input_lengths, target_lengths = sequences()
    return (log_probs, input_lengths), [targets, target_lengths]


# --- The table: a module, its functional twin, their options, the data


@dataclass(frozen=True)
class Twins:
    module: str
    function: str
    data: Callable[[], Batch]
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    reductions: tuple[str, ...] = ("mean", "sum")
    alone: bool = True  # torch takes samples one by one, without a batch dimension

    def build(self, form: str, reduction: str) -> Loss:
        options: dict[str, Any] = {**self.options, "reduction": reduction}
        if form == "function":
            return functools.partial(vars(F)[self.function], **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # NLLLoss2d
            return vars(nn)[self.module](**options)  # type: ignore[no-any-return]


WEIGHT = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0], dtype=torch.float64)
CE = ("CrossEntropyLoss", "cross_entropy")
NLL = ("NLLLoss", "nll_loss")
BCE = ("BCELoss", "binary_cross_entropy")
LOGITS = ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
KL = ("KLDivLoss", "kl_div")
GAUSSIAN = ("GaussianNLLLoss", "gaussian_nll_loss")
POISSON = ("PoissonNLLLoss", "poisson_nll_loss")
RANKING = ("MarginRankingLoss", "margin_ranking_loss")
DISTANCE = ("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss")
REGRESSIONS = (("L1Loss", "l1_loss"), ("MSELoss", "mse_loss"), ("SmoothL1Loss", "smooth_l1_loss"))


def probabilities() -> Batch:
    return normal(N, 5).sigmoid(), other(N, 5).sigmoid()


def log_distributions() -> Batch:
    return normal(N, 5).log_softmax(1), other(N, 5).softmax(1)


TABLE = (
    Twins(*CE, classes()),
    Twins(*CE, classes(-100), note="ignored"),
    Twins(*CE, classes(255), {"ignore_index": 255}, "ignored-255"),
    Twins(*CE, classes(2), {"ignore_index": 2}, "ignored-class"),
    Twins(*CE, classes(-100), {"weight": WEIGHT}, "weight-ignored"),
    Twins(*CE, classes(2), {"weight": WEIGHT, "ignore_index": 2}, "weight-ignored-class"),
    Twins(*CE, classes(-100), {"label_smoothing": 0.1}, "smoothing-ignored"),
    Twins(*CE, classes(-100), {"weight": WEIGHT, "label_smoothing": 0.1}, "weight-smoothing-ignored"),
    Twins(*CE, classes(-100, 3, 2), note="images-ignored", alone=False),
    Twins(*CE, classes(-100, 3, 2), {"weight": WEIGHT, "label_smoothing": 0.2}, "images-weight-smoothing", alone=False),
    Twins(*CE, classes(-100, 2, 3, 2), {"weight": WEIGHT}, "volumes-weight", alone=False),
    Twins(*CE, soft(), note="soft"),
    Twins(*CE, soft(), {"weight": WEIGHT}, "soft-weight"),
    Twins(*CE, soft(), {"weight": WEIGHT, "label_smoothing": 0.1}, "soft-weight-smoothing"),
    Twins(*CE, soft(3, 2), {"weight": WEIGHT}, "soft-images-weight", alone=False),
    Twins(*NLL, classes(-100), note="ignored"),
    Twins(*NLL, classes(-100), {"weight": WEIGHT}, "weight-ignored"),
    Twins(*NLL, classes(-100, 7), {"weight": WEIGHT}, "sequences-weight", alone=False),
    Twins("NLLLoss2d", "nll_loss", classes(-100, 3, 2), note="images", alone=False),
    Twins(*BCE, probabilities),
    Twins(*BCE, probabilities, {"weight": WEIGHT}, "weight"),
    Twins(*LOGITS, probabilities),
    Twins(*LOGITS, probabilities, {"weight": WEIGHT, "pos_weight": WEIGHT.flip(0)}, "weights"),
    *(Twins(*names, regression(N, 3)) for names in REGRESSIONS),
    *(Twins(*names, regression(N, 1), note="broadcast") for names in REGRESSIONS),
    Twins("SmoothL1Loss", "smooth_l1_loss", regression(N, 3), {"beta": 0.3}, "beta"),
    Twins("HuberLoss", "huber_loss", regression(N, 1), {"delta": 0.3}, "broadcast"),
    Twins(*KL, log_distributions),
    Twins(*KL, log_distributions, note="batchmean", reductions=("batchmean",), alone=False),
    Twins(*KL, lambda: (normal(N, 5).log_softmax(1), other(N, 5).log_softmax(1)), {"log_target": True}, "log-target"),
    Twins(*POISSON, lambda: (normal(N, 3), positive(N, 1).round()), {"full": True}, "broadcast"),
    Twins(*POISSON, lambda: (positive(N, 3), positive(N, 3).round()), {"log_input": False}),
    Twins(*GAUSSIAN, gaussian(N, 3), {"full": True}),
    Twins(*GAUSSIAN, gaussian(N, 1), note="one-variance-a-sample"),
    Twins(*GAUSSIAN, gaussian(N), note="one-variance-a-sample-flat"),
    Twins("HingeEmbeddingLoss", "hinge_embedding_loss", lambda: (positive(N, 3), signs(N, 3)), {"margin": 2.0}),
    Twins("SoftMarginLoss", "soft_margin_loss", lambda: (normal(N, 3), signs(N, 1)), note="broadcast"),
    Twins("MultiMarginLoss", "multi_margin_loss", classes()),
    Twins("MultiMarginLoss", "multi_margin_loss", classes(), {"weight": WEIGHT, "p": 2}, "weight"),
    Twins("MultiLabelMarginLoss", "multilabel_margin_loss", multilabel),
    Twins("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", probabilities),
    Twins("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", probabilities, {"weight": WEIGHT}, "weight"),
    Twins("CosineEmbeddingLoss", "cosine_embedding_loss", lambda: ((normal(N, 4), normal(N, 4).flip(0)), signs(N))),
    Twins(*RANKING, lambda: ((normal(N), positive(N)), signs(N)), {"margin": 0.2}),
    Twins(*RANKING, lambda: ([normal(N, 3), normal(N, 1)], signs(N, 1)), note="broadcast"),
    Twins("TripletMarginLoss", "triplet_margin_loss", triplet, {"swap": True}),
    Twins(*DISTANCE, triplet),
    Twins(*DISTANCE, triplet, {"distance_function": lambda a, b: (a - b).abs()}, "no-norm"),
    Twins(*DISTANCE, triplet, {"distance_function": functools.partial(F.cosine_similarity, dim=-1)}, "cosine"),
    Twins("CTCLoss", "ctc_loss", lengths_in_target, alone=False),  # alone, targets may not be padded
    Twins("CTCLoss", "ctc_loss", lengths_in_output, {"zero_infinity": True}, "lengths-in-output", alone=False),
)


@dataclass(frozen=True)
class Case:
    """One loss, built in the test, and its data."""

    build: Callable[[], Loss]
    data: Callable[[], Batch]
    alone: bool = True


LINEAR: tuple[tuple[str, Callable[[], Batch], dict[str, Any]], ...] = (
    ("ignored", classes(-100), {}),
    ("ignored-255", classes(255), {"ignore_index": 255}),
    ("weight-smoothing", classes(-100), {"weight": WEIGHT, "label_smoothing": 0.1}),
    ("soft-weight", soft(), {"weight": WEIGHT}),
    ("chunked-weight", classes(), {"weight": WEIGHT, "options": nn.LinearCrossEntropyOptions()}),
)


def linear_cases() -> Iterator[tuple[str, Case]]:
    """Linear cross-entropy has a layer of its own: the module holds it, for the function it is part of the output."""
    for note, data, options in LINEAR:
        _, target = data()
        module = functools.partial(nn.LinearCrossEntropyLoss, 6, 5, dtype=torch.float64, **options)
        function = functools.partial(functools.partial, F.linear_cross_entropy, **options)
        yield f"LinearCrossEntropyLoss-{note}", Case(module, constant(normal(N, 6), target))
        yield f"linear_cross_entropy-{note}", Case(function, constant((normal(N, 6), normal(5, 6)), target))


def constant(output: Any, target: Tensor) -> Callable[[], Batch]:
    return lambda: (output, target)


def twin_cases() -> Iterator[tuple[str, Case]]:
    for row in TABLE:
        for form, name in (("module", row.module), ("function", row.function)):
            for reduction in row.reductions:
                case = Case(functools.partial(row.build, form, reduction), row.data, row.alone)
                yield "-".join(filter(None, (name, row.note, reduction))), case


CASES = [*twin_cases(), *linear_cases()]
MEANS = [(name, case) for name, case in CASES if not name.endswith("-sum")]


# --- The law


def each(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The tree with each tensor changed."""
    if isinstance(tree, tuple | list):
        return type(tree)(each(item, change) for item in tree)
    return change(tree) if isinstance(tree, Tensor) else tree


def piece(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Some samples of a tensor; all of one that has none, as the weights of a layer."""
    return tensor.narrow(tensor.shape.index(N), start, stop - start) if N in tensor.shape else tensor


def cut(batch: Batch, sizes: tuple[int, ...]) -> list[Batch]:
    stops = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [each(batch, functools.partial(piece, start=stop - size, stop=stop)) for size, stop in zip(sizes, stops, strict=True)]


def sample(tensor: Tensor, place: int) -> Tensor:
    return tensor.select(tensor.shape.index(N), place) if N in tensor.shape else tensor


def taken_apart(batch: Batch) -> list[Batch]:
    """Every sample alone, without the batch dimension."""
    return [each(batch, functools.partial(sample, place=place)) for place in range(N)]


def knowledge(loss: Loss) -> Counted:
    counted = known(loss)
    assert counted is not None
    return counted


def joined(loss: Loss, pieces: list[Batch]) -> Tensor:
    """Σ valueᵢ·countᵢ / Σ countᵢ as the update cycle does it, or the plain sum."""
    counted = knowledge(loss)
    total, divisor = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for output, target in pieces:
        arguments = counted.arguments(output, target)
        value, count = loss(*arguments), torch.as_tensor(counted.count(arguments))
        total = total + (torch.where(count > 0, value * count, 0) if counted.reduction == "mean" else value)
        divisor += count
    return total / divisor if counted.reduction == "mean" else total


def assert_same_gradient(parts: Tensor, whole: Tensor, leaves: list[Tensor]) -> None:
    """The same value, and the same gradient, which is not zero."""
    expected = torch.autograd.grad(whole, leaves)
    assert all(gradient.isfinite().all() and gradient.any() for gradient in expected)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(parts, leaves), expected, rtol=1e-12, atol=1e-12)


def assert_same(loss: Loss, batch: Batch, divide: Callable[[Batch], list[Batch]]) -> None:
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1]

    batch = (each(batch[0], leaf), batch[1])
    assert_same_gradient(joined(loss, divide(batch)), loss(*knowledge(loss).arguments(*batch)), leaves)


def test_ragged_pieces_equal_the_whole() -> None:
    assert not complaints(lambda case: assert_same(case.build(), case.data(), lambda batch: cut(batch, RAGGED)), CASES)


def test_unbatched_samples_equal_the_whole() -> None:
    alone = [(name, case) for name, case in MEANS if case.alone]
    assert not complaints(lambda case: assert_same(case.build(), case.data(), taken_apart), alone)


def test_a_piece_of_ignored_targets_is_nan_and_counts_nothing() -> None:
    output, target = classes(-100)()
    counted = knowledge(F.cross_entropy)
    arguments = counted.arguments(output[5:6], target[5:6])
    assert F.cross_entropy(*arguments).isnan()
    assert counted.count(arguments) == 0


@pytest.mark.parametrize("function", [F.l1_loss, F.mse_loss, F.huber_loss])
def test_elementwise_weight(function: Loss) -> None:
    """torch wants such a weight in the shape of the output, so that of the whole is the pieces' one repeated."""
    weight = positive(5, 3)
    output, target = normal(N, 3).requires_grad_(), positive(N, 3)
    whole = function(output, target, weight=weight.repeat(2, 1))
    parts = joined(functools.partial(function, weight=weight), cut((output, target), (5, 5)))
    assert_same_gradient(parts, whole, [output])


# --- Every loss of torch is in the table


def test_every_loss_module_is_classified() -> None:
    modules = set(torch_losses.__all__)
    assert not modules - {row.module for row in TABLE} - {"LinearCrossEntropyLoss"}
    assert not modules - {name for rule in losses.TABLE for name in rule.names}


REDUCING = [n for n, f in vars(F).items() if inspect.isfunction(f) and "reduction" in inspect.signature(f).parameters]


def test_every_loss_function_is_classified() -> None:
    assert not set(REDUCING) - {row.function for row in TABLE} - {"linear_cross_entropy"}
    assert not [name for name in REDUCING if known(vars(F)[name]) is None]


def test_no_name_in_the_table_is_unknown_to_torch() -> None:
    names = [name for rule in losses.TABLE for name in rule.names]
    assert set(names) == {*torch_losses.__all__, *REDUCING}
    assert len(names) == len(set(names))


# --- The size of a count. A constant factor cancels above, so it is looked at here.


CANCELS = ("CTCLoss", "TripletMarginWithDistanceLoss")  # lengths are in the mean only; a distance may give many numbers


def test_the_mean_times_its_count_is_the_sum() -> None:
    rows = [(f"{row.module}-{row.note}", row) for row in TABLE if row.module not in CANCELS]
    assert not complaints(assert_mean_times_count, rows)


def assert_mean_times_count(row: Twins) -> None:
    mean, summed = row.build("function", row.reductions[0]), row.build("function", "sum")
    counted = knowledge(mean)
    arguments = counted.arguments(*row.data())
    torch.testing.assert_close(mean(*arguments) * counted.count(arguments), summed(*arguments), rtol=1e-12, atol=1e-12)


def halved(name: str) -> Loss:
    """With a weight, which torch's type stubs do not have yet."""
    return functools.partial(vars(F)[name], weight=torch.full((3,), 0.5))


@pytest.mark.parametrize(
    ("loss", "output", "target", "expected"),
    [
        (F.cross_entropy, torch.zeros(4, 3), torch.tensor([0, -100, 2, 1]), torch.tensor(3)),
        (F.cross_entropy, torch.zeros(3), torch.tensor(1), 1),
        (F.cross_entropy, torch.zeros(2, 160), torch.tensor([156, 1], dtype=torch.uint8), 2),
        (nn.NLLLoss(torch.tensor([1.0, 2.0])), torch.zeros(3, 2), torch.tensor([1, 1, -100]), torch.tensor(4.0)),
        (F.cross_entropy, torch.zeros(4, 3, 2), torch.zeros(4, 3, 2), 8),
        (F.cross_entropy, torch.zeros(3), torch.zeros(3), 1),
        (F.mse_loss, torch.zeros(4, 3), torch.zeros(4, 1), 12),
        (halved("mse_loss"), torch.zeros(3), torch.zeros(3), torch.tensor(1.5)),
        (halved("l1_loss"), torch.zeros(3), torch.zeros(3), torch.tensor(1.5)),
        (halved("huber_loss"), torch.zeros(3), torch.zeros(3), 3),
        (nn.MSELoss(), torch.zeros(()), torch.zeros(()), 1),
        (nn.KLDivLoss(reduction="batchmean"), torch.zeros(4, 3), torch.zeros(4, 3), 4),
        (nn.KLDivLoss(reduction="batchmean"), torch.zeros(()), torch.zeros(()), 1),
        (nn.CTCLoss(), torch.zeros(7, 4, 3), (torch.zeros(4, 2), torch.zeros(4), torch.zeros(4)), 4),
        (nn.CTCLoss(), torch.zeros(7, 3), (torch.zeros(2), torch.tensor(7), torch.tensor(2)), 1),
        (nn.TripletMarginLoss(), (torch.zeros(4, 3),) * 3, None, 4),
        (nn.CosineEmbeddingLoss(), (torch.zeros(4, 3),) * 2, torch.zeros(4), 4),
        (nn.MultiLabelMarginLoss(), torch.zeros(3), torch.zeros(3), 1),
    ],
)
def test_counts_by_hand(loss: Loss, output: Any, target: Any, expected: Tensor | int) -> None:
    counted = knowledge(loss)
    count = counted.count(counted.arguments(output, target))
    assert type(count) is type(expected)
    torch.testing.assert_close(count, expected)


def test_bfloat16_outputs_leave_the_count_whole() -> None:
    output, target = torch.zeros(1000, 5, dtype=torch.bfloat16), labels(1000)
    plain, weighted = F.cross_entropy, nn.CrossEntropyLoss(torch.ones(5)).to(torch.bfloat16)
    for loss, expected in ((plain, 1000), (weighted, torch.tensor(1000.0))):
        counted = knowledge(loss)
        arguments = counted.arguments(output, target)
        assert loss(*arguments).dtype is torch.bfloat16
        torch.testing.assert_close(counted.count(arguments), expected, rtol=0, atol=0)


def test_a_moved_module_counts_with_its_moved_weight() -> None:
    loss = nn.CrossEntropyLoss(torch.ones(5))
    counted = knowledge(loss)
    loss.to(torch.float64)
    assert counted.count((torch.zeros(3, 5), labels(3))).dtype is torch.float64  # type: ignore[union-attr]


def test_a_weight_of_infinity_that_no_target_has_stays_out() -> None:
    counted = knowledge(functools.partial(F.cross_entropy, weight=torch.tensor([torch.inf, 2.0])))
    assert counted.count((torch.zeros(2, 2), torch.tensor([1, -100]))) == 2


def test_a_weight_that_is_trained_stays_out_of_the_graph() -> None:
    counted = knowledge(functools.partial(F.cross_entropy, weight=torch.ones(5).requires_grad_()))
    assert not counted.count((torch.zeros(3, 5), labels(3))).requires_grad  # type: ignore[union-attr]


class NoWaiting(TorchDispatchMode):
    """Fails on what makes the host wait for a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in (
            "_local_scalar_dense",
            "nonzero",
            "masked_select",
            "equal",
            "_to_copy",
        )
        return func(*args, **(kwargs or {}))


def test_counting_never_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_counts, "readable", lambda tensor: False)
    assert not complaints(assert_counts_without_waiting, MEANS)


def assert_counts_without_waiting(case: Case) -> None:
    counted = knowledge(case.build())
    arguments = counted.arguments(*case.data())
    with NoWaiting():  # type: ignore[no-untyped-call]
        count = counted.count(arguments)
    assert isinstance(count, int) or count.dim() == 0


# --- What a loss may be wrapped in


class Wrapped(functools.partial[Any]):
    """A partial that functools does not merge with its neighbours."""


class Inheriting(nn.CrossEntropyLoss):
    """Its forward is torch's."""


class Overriding(nn.CrossEntropyLoss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return super().forward(input, target) * 2


class Calling(nn.CrossEntropyLoss):
    def __call__(self, *args: Any) -> Tensor:
        return 2 * super().__call__(*args)  # type: ignore[no-any-return]


class Storing(nn.MSELoss):
    """Keeps a weight that torch's forward does not look at."""

    weight = torch.tensor(3.0)


def own(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).sum()


def patched() -> nn.Module:
    loss = nn.CrossEntropyLoss()
    vars(loss)["forward"] = own
    return loss


NESTED = Wrapped(Wrapped(F.cross_entropy, ignore_index=1, reduction="sum"), ignore_index=2, reduction="mean")


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (functools.partial(F.cross_entropy, ignore_index=2), 3),
        (NESTED, 3),
        (functools.partial(NESTED, label_smoothing=0.1), 3),
        (functools.partial(nn.CrossEntropyLoss(ignore_index=2)), 3),
        (Wrapped(functools.partial(nn.CrossEntropyLoss(ignore_index=2))), 3),
        (functools.partial(F.nll_loss, weight=torch.tensor([1.0, 2.0, 4.0])), 9),
        (Inheriting(ignore_index=2), 3),
    ],
)
def test_partials_and_subclasses(loss: Loss, expected: int) -> None:
    counted = knowledge(loss)
    arguments = counted.arguments(torch.zeros(4, 3), torch.tensor([0, 2, 1, 1]))
    assert counted.reduction == "mean"
    assert counted.count(arguments) == expected
    assert loss(*arguments).dim() == 0


def test_an_attribute_that_torch_does_not_read_changes_nothing() -> None:
    assert knowledge(Storing()).count((torch.zeros(4), torch.zeros(4))) == 4


@pytest.mark.parametrize("loss", [F.gaussian_nll_loss, nn.GaussianNLLLoss()])
def test_a_bound_variance_leaves_output_and_target(loss: Loss) -> None:
    bound = functools.partial(loss, var=0.5)
    assert_same(bound, (normal(N, 3), positive(N, 3)), lambda batch: cut(batch, RAGGED))


def test_bound_lengths_leave_the_others() -> None:
    log_probs, targets, input_lengths, target_lengths = sequences()
    loss = functools.partial(F.ctc_loss, target_lengths=target_lengths)
    for output, target in ((log_probs, (targets, input_lengths)), ((log_probs, input_lengths), targets)):
        arguments = knowledge(loss).arguments(output, target)
        assert torch.equal(loss(*arguments), F.ctc_loss(*sequences()))


@pytest.mark.parametrize(
    ("legacy", "expected"),
    [
        ({"size_average": True}, "mean"),
        ({"size_average": False}, "sum"),
        ({"reduce": True, "reduction": "sum"}, "mean"),
        ({"reduce": False}, "none"),
        ({"size_average": False, "reduce": True}, "sum"),
        ({"size_average": True, "reduce": False}, "none"),
        ({"reduction": "none"}, "none"),
        ({"reduction": "elementwise_mean"}, "mean"),
    ],
)
def test_legacy_arguments(legacy: dict[str, Any], expected: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = nn.MSELoss(**legacy)
    assert knowledge(module).reduction == expected
    assert knowledge(functools.partial(F.mse_loss, **legacy)).reduction == expected


@pytest.mark.parametrize(
    "loss",
    [
        own,
        functools.wraps(F.cross_entropy)(own),
        functools.partial(own),
        functools.partial(Overriding()),
        functools.partial(nn.CrossEntropyLoss),
        nn.CrossEntropyLoss,
        Overriding(),
        Calling(),
        patched(),
        nn.Identity(),
        nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2]),
        torch.cosine_embedding_loss,
        F.linear,
        print,
        [].append,  # not hashable
    ],
)
def test_strangers_are_unknown(loss: Loss) -> None:
    assert known(loss) is None


# --- Errors


@pytest.mark.parametrize(
    ("loss", "output", "target", "words"),
    [
        (
            nn.CrossEntropyLoss(),
            (torch.zeros(2, 3), torch.zeros(4)),
            torch.zeros(2),
            r"^CrossEntropyLoss takes output=a tensor \(input\) and target=a tensor \(target\); got output="
            r"a tuple of 2 \(a tensor of shape \(2, 3\), a tensor of shape \(4,\)\) and target=a tensor of shape",
        ),
        (Inheriting(), torch.zeros(2), None, "^Inheriting takes .* and target=None"),
        (F.mse_loss, {"logits": torch.zeros(2)}, 3, "^mse_loss takes .* got output=dict and target=int"),
        (
            F.cosine_embedding_loss,
            torch.zeros(2, 3),
            torch.zeros(2),
            r"^cosine_embedding_loss takes output=\(input1, input2\) and target=a tensor \(target\); got output=a",
        ),
        (
            nn.TripletMarginLoss(),
            (WEIGHT,) * 2,
            None,
            r"takes output=\(anchor, positive, negative\); got .* tuple of 2",
        ),
        (nn.GaussianNLLLoss(), WEIGHT, WEIGHT, r"takes output=\(input, var\) and target=a tensor \(target\); got"),
        (
            nn.CTCLoss(),
            torch.zeros(5, 2, 3),
            (torch.zeros(2, 2), torch.ones(2)),
            r"CTCLoss takes output=a tensor \(log_probs\) and target=\(targets, input_lengths, target_lengths\), or "
            r"output=\(log_probs, input_lengths\) and target=\(targets, target_lengths\); got output=a tensor",
        ),
        (F.linear_cross_entropy, WEIGHT, WEIGHT, r"takes output=\(input, linear_weight\) and target=a tensor"),
    ],
)
def test_wrong_structures(loss: Loss, output: Any, target: Any, words: str) -> None:
    with pytest.raises(ObjectiveError, match=words):
        knowledge(loss).arguments(output, target)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (nn.MSELoss(reduction="average"), r"MSELoss has reduction='average'; use 'mean' or 'sum'"),
        (
            functools.partial(vars(F)["cross_entropy"], weigth=WEIGHT),
            "partial of cross_entropy cannot be called: .*'weigth'",
        ),
        (functools.partial(F.mse_loss, torch.zeros(2)), r"mse_loss binds 'input', so it cannot take output=a tensor"),
        (functools.partial(F.mse_loss, target=torch.zeros(2)), r"mse_loss binds 'target', .* write an objective"),
        (functools.partial(F.ctc_loss, input_lengths=WEIGHT), "ctc_loss binds 'input_lengths', so it cannot take"),
        (functools.partial(F.linear_cross_entropy, linear_weight=WEIGHT), "binds 'linear_weight'"),
        (functools.partial(F.kl_div, size_average=True, reduction="batchmean"), "size_average=True.* divide twice"),
    ],
)
def test_losses_that_cannot_be_called(loss: Loss, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        known(loss)


def test_the_example_runs() -> None:
    assert doctest.testmod(losses).attempted == 4
    assert doctest.testmod(losses).failed == 0
