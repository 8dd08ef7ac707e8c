"""A PyTorch model in scikit-learn: cross-validation, and a grid search over its width and its learning rate.

Needs scikit-learn: pip install ".[sklearn]"
"""

from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from instep import data
from instep.sklearn import Classifier


def build(inputs: int, outputs: int, width: int = 32) -> nn.Module:
    """As many inputs as there are features, as many outputs as there are classes."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def main() -> None:
    images, labels = (column[:600].numpy() for column in data.digits())
    pixels = images.reshape(len(images), -1)
    pipeline = make_pipeline(StandardScaler(), Classifier(build, epochs=10, lr=1e-2))
    scores = cross_val_score(pipeline, pixels, labels, cv=3)
    print(f"accuracy in 3 folds: {', '.join(f'{score:.3f}' for score in scores)}")
    grid = {"classifier__model__width": [8, 64], "classifier__lr": [1e-3, 1e-2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(pixels, labels)
    for settings, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        print(f"width {settings['classifier__model__width']:2}, lr {settings['classifier__lr']:.0e}: {score:.3f}")
    print(f"best: {search.best_params_}")


if __name__ == "__main__":
    main()
