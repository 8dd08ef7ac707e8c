"""What `prove` has to say of each training of the zoo: the promises that do not simply hold, and their causes."""

from typing import NamedTuple


class Answer(NamedTuple):
    """A verdict and the names of its causes."""

    verdict: str
    causes: tuple[str, ...] = ()


IN_MEMORY = {"load": Answer("does not apply")}
NOT_TRIED = {
    name: Answer("not tried") for name in ("split", "interrupt", "spread", "load", "observe", "tune", "overflow", "plain")
}
EXACT = ("split", "spread", "overflow")  # the others are bitwise, where they hold; overflow often is, too
STATE, NORM, DRAWS = (Answer("differs", (name,)) for name in ("forward-state", "batchnorm", "draws"))


def everywhere(cause: str) -> dict[str, Answer]:
    """A data set that gives other samples wherever it is loaded otherwise."""
    return {name: Answer("differs", (cause,)) for name in ("interrupt", "spread", "load", "observe", "tune")}


UNSTEADY = Answer("differs", ("unsteady-forward",))
ANSWERS: dict[str, dict[str, Answer]] = {
    "mlp": IN_MEMORY,
    "cnn_groupnorm": IN_MEMORY,
    "transformer": IN_MEMORY,
    "lstm": IN_MEMORY,
    "custom_function": IN_MEMORY,
    "augmented": {},
    "dataloader": IN_MEMORY,
    "iterable": {},
    "token_mean_counted": IN_MEMORY,
    "cnn_batchnorm": IN_MEMORY | {"split": NORM, "spread": NORM},
    "dropout": IN_MEMORY | {"split": DRAWS},
    "contrastive": IN_MEMORY | {"split": Answer("differs", ("coupled-loss",))},
    "centred": IN_MEMORY | {"split": Answer("differs", ("coupled-model",))},
    "counting_buffer": IN_MEMORY | {"split": STATE, "spread": STATE},
    "counting_buffer_used": IN_MEMORY | {"split": STATE, "spread": STATE},
    "gan": IN_MEMORY
    | {"split": Answer("differs", ("draws", "draws")), "tune": Answer("does not apply"), "plain": Answer("does not apply")},
    "token_mean": IN_MEMORY | {"split": Answer("differs", ("wrong-weight",))},
    "summed": IN_MEMORY | {"split": Answer("differs", ("wrong-weight",))},
    "own_generator": everywhere("unkeyed-randomness"),
    "own_generator_unseeded": NOT_TRIED | {"repeat": Answer("differs", ("entropy", "unkeyed-randomness"))},
    "clock": NOT_TRIED | {"repeat": Answer("differs", ("clock",))},
    "mutating": everywhere("changing-data"),
    "set_order": {
        "repeat": Answer("differs", ("hash-order",)),
        "interrupt": Answer("not tried"),
        "spread": Answer("not tried"),
    },
    "process_id": {
        "repeat": Answer("differs", ("process",)),
        "interrupt": Answer("not tried"),
        "spread": Answer("not tried"),
        "load": Answer("differs", ("process",)),
    },
    "unkeyed_forward": IN_MEMORY | dict.fromkeys(("split", "interrupt", "spread", "observe", "tune", "overflow"), UNSTEADY),
}


def is_right(name: str, promise: str, verdict: str, causes: tuple[str, ...]) -> bool:
    answer = expected(name, promise)
    return (verdict, causes) == answer or (promise == "overflow" and {verdict, answer.verdict} == {"bitwise", "exact"})


def expected(name: str, promise: str) -> Answer:
    return ANSWERS[name].get(promise, Answer("exact" if promise in EXACT else "bitwise"))
