"""Estimators of scikit-learn: its own checks, and what people do with them: pipelines, searches, scores, pickles, frames."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from instep.errors import DescriptionError, ObjectiveError

pytestmark = pytest.mark.extras
pytest.importorskip("sklearn")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 4))
KIND = np.where(X[:, 0] + X[:, 1] > 0, "ripe", "green")
NUMBER = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 3
SOON: dict[str, Any] = {"epochs": 20, "batch_size": 16, "lr": 2e-2}


def build(inputs: int, outputs: int, width: int = 16) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def build_double(inputs: int, outputs: int) -> nn.Module:
    """In float32 a row's sum differs in the last bit with the row's place in its batch, and the checks compare to 1e-9."""
    return build(inputs, outputs, 32).double()


def classifier(model: Any = build, **options: Any) -> Any:
    from instep.sklearn import Classifier

    return Classifier(model, **(SOON | options))


def regressor(model: Any = build, **options: Any) -> Any:
    from instep.sklearn import Regressor

    return Regressor(model, **(SOON | options))


# --- What scikit-learn itself asks of an estimator

DOES_NOT_APPLY = {
    "check_do_not_raise_errors_in_init_or_set_params": (
        "it passes `more=`, the name of **more in the signature, as if it were a parameter; an unknown name is an error at once"
    ),
}


@pytest.mark.filterwarnings("ignore")  # the checks pass data of one sample, of constant columns, …
@pytest.mark.parametrize("make", [classifier, regressor])
def test_it_passes_the_checks_of_scikit_learn(make: Any) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    estimator = make(build_double, epochs=30, lr=1e-2)
    results = check_estimator(estimator, expected_failed_checks=DOES_NOT_APPLY, on_fail=None, on_skip=None)
    found = {result["check_name"]: result["status"] for result in results}
    assert len(found) > 40
    assert not [name for name, status in found.items() if status == "failed"]
    assert {name for name, status in found.items() if status == "xfail"} == set(DOES_NOT_APPLY)
    assert {name for name, status in found.items() if status == "skipped"} <= {"check_array_api_input"}


# --- What people do with it


def test_labels_of_any_kind() -> None:
    for labels in (KIND, KIND == "ripe", np.where(KIND == "ripe", 7, -3), KIND.astype(object)):
        fitted = classifier().fit(X, labels)
        assert fitted.classes_.tolist() == np.unique(labels).tolist()
        assert fitted.predict(X).dtype == fitted.classes_.dtype
        assert fitted.score(X, labels) > 0.9
    chances = fitted.predict_proba(X)
    assert chances.shape == (120, 2)
    assert chances.sum(1) == pytest.approx(1)
    assert (fitted.classes_[chances.argmax(1)] == fitted.predict(X)).all()
    assert fitted.n_features_in_ == 4


def test_a_pipeline_in_a_search_and_in_cross_validation() -> None:
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), classifier())
    assert cross_val_score(pipeline, X, KIND, cv=3).min() > 0.8
    grid = {"classifier__model__width": [1, 16], "classifier__lr": [1e-6, 2e-2], "classifier__clip_norm": [None, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, KIND)
    assert search.best_params_["classifier__lr"] == 2e-2
    assert search.best_score_ > 0.8
    assert search.best_estimator_[-1].model_[0].out_features == search.best_params_["classifier__model__width"]


def test_a_search_in_two_processes() -> None:
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(classifier(nn.Linear), {"lr": [1e-5, 2e-2]}, cv=2, n_jobs=2).fit(X, KIND)
    assert search.best_params_ == {"lr": 2e-2}


def test_a_fit_is_a_run_of_the_trainer() -> None:
    """The same weights as a Trainer's that gets the same, and the same twice."""
    from instep import Trainer, keys

    with keys.fork_rng():
        keys.seed_all(keys.for_build(5))
        model = build(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    train = (torch.from_numpy(X).float(), torch.from_numpy(NUMBER).float()[:, None])
    Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=optimizer,
        train=train,
        valid=0.25,
        epochs=3,
        batch_size=16,
        seed=5,
        clip_norm=1.0,
        progress=False,
    ).fit()
    for _ in range(2):
        fitted = regressor(epochs=3, random_state=5, valid=0.25, clip_norm=1.0).fit(X, NUMBER)
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), fitted.model_.parameters(), strict=True))
    assert len(fitted.history_.evaluations) == 3
    before = torch.random.get_rng_state()
    fitted.predict(X)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_module_that_was_passed_stays_as_it_was() -> None:
    model = build(4, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, again = classifier(model).fit(X, KIND), classifier(model).fit(X, KIND)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert (first.predict_proba(X) == again.predict_proba(X)).all()


def test_a_clone_has_all_parameters_and_nothing_fitted() -> None:
    from sklearn.base import clone

    fitted = classifier(model__width=5, ema=0.9, class_weight={"ripe": 2.0}).fit(X, KIND)
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert {"model__width": 5, "ema": 0.9}.items() <= copied.get_params(deep=False).items()
    assert not hasattr(copied, "model_")
    assert classifier().get_params()["model__width"] == 16  # of the function's own signature
    assert "clip_norm" not in classifier().get_params()
    assert copied.set_params(model__width=7, clip_norm=1.0).get_params()["model__width"] == 7
    assert "model__width=5" in repr(fitted)


def test_it_can_be_pickled() -> None:
    fitted = classifier().fit(X, KIND)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert again.history_.last == fitted.history_.last
    pickle.loads(pickle.dumps(classifier())).fit(X, KIND)


def test_the_columns_of_a_frame_are_checked_by_name() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = regressor().fit(frame, pd.Series(NUMBER))
    assert fitted.feature_names_in_.tolist() == list("abcd")
    assert fitted.score(frame, NUMBER) > 0.9
    with pytest.raises(ValueError, match=r"Feature names must be in the same order as they were in fit"):
        fitted.predict(frame[list("bacd")])
    with pytest.raises(ValueError, match=r"(?s)Feature names unseen at fit time:\n- z"):
        fitted.predict(frame.rename(columns={"a": "z"}))


def test_several_numbers_a_row_and_outputs_without_a_column() -> None:
    both = np.stack([NUMBER, -NUMBER], 1)
    assert regressor().fit(X, both).predict(X).shape == (120, 2)

    def flat(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, outputs), nn.Flatten(0))

    assert regressor(flat, epochs=40).fit(X, NUMBER).score(X, NUMBER) > 0.9


def test_one_logit_for_two_classes() -> None:
    loss = nn.BCEWithLogitsLoss()
    fitted = classifier(loss=loss, class_weight="balanced").fit(X, KIND)
    assert fitted.model_[-1].out_features == 1
    assert fitted.score(X, KIND) > 0.9
    assert fitted.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(DescriptionError, match=r"this loss has one output for two classes, and y has 3; use cross_entropy"):
        classifier(loss=loss).fit(X, np.arange(120) % 3)


def test_images_and_words() -> None:
    """Inputs of more dimensions stay as they are; whole numbers stay whole for an embedding."""

    class Words(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 8), nn.Linear(8, outputs)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.table(x).mean(1))
            return out

    words = RANDOM.integers(9, size=(90, 5))
    many = words.sum(1) > 20
    assert classifier(Words, epochs=40).fit(words, many).score(words, many) > 0.8
    images = RANDOM.normal(size=(60, 1, 6, 6))
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    assert classifier(conv, epochs=2).fit(images, images.mean((1, 2, 3)) > 0).predict(images).shape == (60,)


def test_class_weights_by_label() -> None:
    rare = np.where(X[:, 0] > 1.2, "rare", "usual")
    plain, weighted = (classifier(nn.Linear, class_weight=w).fit(X, rare) for w in (None, "balanced"))
    assert (weighted.predict(X) == "rare").sum() > (plain.predict(X) == "rare").sum()
    by_hand = classifier(nn.Linear, class_weight={"rare": 50.0}).fit(X, rare)
    assert (by_hand.predict(X) == "rare").sum() > (plain.predict(X) == "rare").sum()
    with pytest.raises(ValueError, match=r"class_weight= has the label 'ripe', which y does not have"):
        classifier(class_weight={"ripe": 1.0}).fit(X, rare)


def test_the_weights_that_the_monitored_value_judges_are_used() -> None:
    fitted = classifier(valid=(X, KIND), ema=0.9, monitor="valid/ema/loss", metrics="accuracy", epochs=5).fit(X, KIND)
    assert fitted.score(X, KIND) == pytest.approx(fitted.history_.last["valid/ema/accuracy"])
    stopped = classifier(valid=0.3, patience=2, restore_best=True, epochs=200, lr=0.2).fit(X, KIND)
    assert len(stopped.history_.evaluations) < 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_epochs": 3}, r"Classifier has no argument max_epochs=; use epochs="),
        ({"seed": 3}, r"Classifier has no parameter seed; use random_state="),
        ({"train": 3}, r"Classifier has no parameter train; use fit\(X, y\)"),
        ({"class_weights": "balanced"}, r"no parameter class_weights; use class_weight= of a Classifier"),
        ({"clip_nrm": 3}, r"Classifier has no argument clip_nrm=; did you mean clip_norm=\?"),
    ],
)
def test_parameters_that_there_are_not(options: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        classifier(**options)
    with pytest.raises(DescriptionError, match=words):
        classifier().set_params(**options)


def test_models_that_do_not_fit() -> None:
    with pytest.raises(DescriptionError, match=r"model=3 is no nn.Module; pass one, or a function \(inputs, outputs\)"):
        classifier(3).fit(X, KIND)
    with pytest.raises(DescriptionError, match=r"model= returned a int; it must return an nn.Module"):
        classifier(lambda inputs, outputs: 3).fit(X, KIND)
    with pytest.raises(DescriptionError, match=r"model__width= is a setting of a function, and model is a module already"):
        classifier(build(4, 2), model__width=3).fit(X, KIND)
    with pytest.raises(DescriptionError, match=r"the model gives 7 outputs a row for 2 classes; it needs 2\."):
        classifier(nn.Linear(4, 7)).fit(X, KIND)
    with pytest.raises(ObjectiveError, match=r"takes 3 features and got an input of shape \(16, 4\)"):
        classifier(nn.Linear(3, 2)).fit(X, KIND)
    with pytest.raises(ValueError, match=r"y has one class, 'ripe'; a classifier needs two or more"):
        classifier().fit(X, np.full(120, "ripe", dtype=object))
    with pytest.raises(ValueError, match=r"the label 'blue' is no class of the training data"):
        classifier(valid=(X[:2], np.array(["blue", "ripe"]))).fit(X, KIND)
