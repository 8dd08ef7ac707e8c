"""DataNames: what data calls its columns and its classes, for whoever shows them. Nothing is loaded for it."""

from collections.abc import Mapping
from typing import Any

from instep.data.sources.samples import Samples
from instep.data.sources.underlying import frame_layout, underlying
from instep.records import record_class


@record_class
class DataNames:
    """The names in a data set; empty where it has none."""

    features: tuple[str, ...] = ()  # of the numbers of one input, in their order
    target: str = ""
    classes: tuple[str, ...] = ()  # in the order of their numbers

    def class_of(self, label: int) -> str:
        """A class by its name, or by its number where it has none."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)


def data_names(source: Any) -> DataNames:
    """Of a frame its columns and the categories of its one target; of a data set the classes that it says it has."""
    layout = frame_layout(source)
    if layout is not None:
        target = layout.targets[0] if len(layout.targets) == 1 else ""
        return DataNames(layout.names, target, tuple(map(str, layout.classes.get(target, ()))))
    found = underlying(source)
    return DataNames(classes=_classes(found.dataset)) if isinstance(found, Samples) else DataNames()


def _classes(dataset: Any) -> tuple[str, ...]:
    """`classes` of `image_folder` and of torchvision; the one feature with names of a data set of Hugging Face."""
    features = getattr(dataset, "features", None)
    named = [one.names for one in features.values() if hasattr(one, "names")] if isinstance(features, Mapping) else []
    found = getattr(dataset, "classes", None) if not named else named[0] if len(named) == 1 else None
    is_of_words = isinstance(found, list | tuple) and all(isinstance(name, str) for name in found)
    return tuple(found) if is_of_words and found and len(found) < len(dataset) else ()  # not one for each sample
