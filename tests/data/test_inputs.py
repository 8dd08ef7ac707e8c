"""How the inputs of a batch become arguments of forward: one rule for `loss=`, for `predict` and for exports."""

from collections import namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from instep import Trainer
from instep.checkpoint.exported import export_model
from instep.data.inputs import arguments, call_model, inputs_of
from instep.errors import DescriptionError, ObjectiveError

A, B, Y = torch.randn(20, 2), torch.randn(20, 3), torch.randint(3, (20,))
Pair = namedtuple("Pair", "a b")


class Two(nn.Module):
    """Two inputs that cannot be confused."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = self.a(a) + self.b(b)
        return out


class Samples(Dataset[Any]):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        a, b, y = A[index], B[index], Y[index]
        return {"tuple": ((a, b), y), "list": [[a, b], y], "mapping": ({"b": b, "a": a}, y)}[self.kind]


def trained(train: Any) -> Trainer:
    torch.manual_seed(0)
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options: dict[str, Any] = {"epochs": 1, "progress": False, "metrics": "accuracy"}
    trainer = Trainer(model, loss=F.cross_entropy, optimizer=optimizer, train=train, valid=0.5, **options)
    trainer.fit()
    return trainer


SEVERAL = {
    "tuple": ((A, B), Y),
    "list": ([A, B], Y),
    "mapping": ({"b": B, "a": A}, Y),
    "tuple samples": Samples("tuple"),
    "list samples": Samples("list"),
    "mapping samples": Samples("mapping"),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_several_inputs_train_evaluate_and_predict(form: str) -> None:
    trainer, alone = trained(SEVERAL[form]), trained(((A, B), Y))
    assert all(torch.equal(p, q) for p, q in zip(trainer.model.parameters(), alone.model.parameters(), strict=True))
    with torch.no_grad():
        expected = trainer.model(A, B)
    for data in (SEVERAL[form], {"a": A, "b": B}, ((A, B), Y), ((A, B),)):
        torch.testing.assert_close(trainer.predict(data), expected)
    if form.startswith("mapping"):
        with pytest.raises(
            ObjectiveError, match=r"Two\.forward\(a, b\) is called as model\(…\), because the batch has one input: miss"
        ):
            trainer.predict((A, B))
    else:
        torch.testing.assert_close(trainer.predict((A, B)), expected)  # the inputs alone: as many as it was trained with
        torch.testing.assert_close(trainer.predict(DataLoader(Rows(), batch_size=7)), expected)


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        return A[index], B[index]


def test_the_rule() -> None:
    assert arguments(A) == ((A,), {})
    assert arguments((A, B)) == ((A, B), {})
    assert arguments([A, B]) == ((A, B), {})
    assert arguments({"a": A}) == ((), {"a": A})
    assert arguments({0: A}) == (({0: A},), {})
    words, pair = ["a", "b"], Pair(A, B)
    assert arguments(words) == ((words,), {})
    assert arguments(pair) == ((pair,), {})
    packed = nn.utils.rnn.pack_sequence([A[0], A[1]])
    assert arguments(packed)[0][0] is packed
    assert inputs_of((A, Y)) is A
    assert inputs_of(Pair(A, B)) is A
    assert inputs_of(A) is A
    assert inputs_of(words) is words
    assert inputs_of({"a": A}) == {"a": A}
    assert inputs_of((A, B), 2) == (A, B)
    assert inputs_of((A, B, Y), 2) is A
    assert inputs_of(((A, B), Y), 2) == (A, B)
    assert inputs_of(({"a": A}, Y), 2) == {"a": A}


def test_arguments_that_forward_does_not_take() -> None:
    words = r"is called as model\(a=…, c=…\), because the batch has inputs by name: .*'b'\. Give the samples the inputs that"
    with pytest.raises(ObjectiveError, match=words):
        call_model(Two(), {"a": A, "c": B})
    with pytest.raises(ObjectiveError, match=r"is called as model\(…, …, …\), because the batch has 3 inputs: too many"):
        call_model(Two(), (A, B, B))

    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x + "1"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):  # an error from inside stays what it is
        call_model(Broken(), A)


def test_what_cannot_be_told_apart() -> None:
    with pytest.raises(
        DescriptionError, match=r"train is a list of 2 unlike entries, list, Tensor, so they are no samples; pass a tu"
    ):
        trained([[A, B], Y])
    with pytest.raises(
        ObjectiveError, match=r"this batch is a tuple of 3; give several inputs as \(\(a, b\), y\), or pass objective="
    ):
        trained((A, B, Y))


def test_exports_are_called_alike() -> None:
    model = Two().eval()
    for batch in (((A, B), Y), ({"b": B, "a": A}, Y)):
        program = export_model(model, [batch]).program
        args, named = arguments(batch[0])
        torch.testing.assert_close(program.module()(*args, **named), model(A, B))


# --- Outputs that belong to a batch


class Judging(nn.Module):
    """Gives what models of Hugging Face give: a loss where there are labels, in a mapping or a tuple."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.line, self.form = nn.Linear(2, 3), form

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        logits = self.line(x)
        loss = F.cross_entropy(logits, labels)
        if self.form == "number":
            return loss
        return {"loss": loss, "logits": logits, "cache": None} if self.form == "mapping" else (loss, logits)


def test_what_belongs_to_the_batch_is_no_prediction() -> None:
    def made(form: str) -> Trainer:
        model = Judging(form)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return Trainer(model, optimizer=optimizer, train={"x": A, "labels": Y}, epochs=1, batch_size=8, progress=False)

    found = made("mapping").predict({"x": A, "labels": Y})
    assert {name: tuple(value.shape) for name, value in found.items()} == {"logits": (20, 3)}
    nothing, logits = made("tuple").predict({"x": A, "labels": Y})
    assert nothing is None
    assert logits.shape == (20, 3)
    with pytest.raises(
        ObjectiveError, match="the model gave a single number for 8 samples; predict joins outputs whose first dim"
    ):
        made("number").predict({"x": A, "labels": Y})
