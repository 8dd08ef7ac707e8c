"""Symptoms: what people see, and the mistakes that may be behind it, each with the question that tells it apart."""

import functools
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from instep.doctor.catalogue import CATALOGUE
from instep.errors import DescriptionError
from instep.text import PROSE, Paint, plain, wrapped

# Words that every symptom could have.
_FILLING = """
    a an and the my is are was be it its of to in on for with not no does do dont never always very at all i we model training
    train network why what when than then
"""
COMMON = frozenset(_FILLING.split())
SAME = {
    "doesnt": "not", "stuck": "constant", "flat": "constant", "increases": "rises", "increasing": "rises", "grows": "rises",
    "nans": "nan", "acc": "accuracy", "val": "validation", "lr": "learning", "oom": "memory", "leak": "memory", "ram": "memory",
}  # fmt: skip
CLOSE = 0.75  # of the best match, by which others are shown too


@dataclass(frozen=True)
class Symptom:
    """One symptom: how it is called, other ways to say it, commas between, and (id, question) of what may be behind it."""

    name: str
    words: str
    candidates: tuple[tuple[str, str], ...]


@functools.cache
def symptoms() -> tuple[Symptom, ...]:
    """All of them."""
    text = (files("instep.doctor") / "symptoms.toml").read_text(encoding="utf-8")
    found = []
    for told in tomllib.loads(text)["symptom"]:
        candidates = tuple((id, question) for id, question in told["candidates"])
        found.append(Symptom(told["name"], told["words"], candidates))
    return tuple(found)


def find_symptoms(text: str) -> list[Symptom]:
    """The symptoms that these words describe, the best first; an error where there is none."""
    asked = _stems(text)
    known = [symptom for symptom in symptoms() if symptom.name == text.strip().lower()]
    if known:
        return known
    scores = sorted(((_likeness(asked, symptom), -place) for place, symptom in enumerate(symptoms())), reverse=True)
    best = scores[0][0]
    if best <= 0:
        raise DescriptionError(f"no symptom is like {text!r}; instep doctor --symptom lists those that there are.")
    return [symptoms()[-place] for score, place in scores if score >= CLOSE * best]


def _likeness(asked: set[str], symptom: Symptom) -> float:
    """How much the asked words and one way to say it have in common, of what either has; 1 where they are the same.

    Words that no symptom has count little, words that many have less than others.
    """
    return max(_common(asked, _stems(phrase)) for phrase in (symptom.name, *symptom.words.split(",")))


def _common(asked: set[str], phrase: set[str]) -> float:
    shared = sum(map(_weight, asked & phrase))
    return shared / math.sqrt(sum(map(_weight, asked)) * sum(map(_weight, phrase))) if shared else 0.0


@functools.cache
def _weight(word: str) -> float:
    having = sum(word in _stems(f"{symptom.name} {symptom.words}") for symptom in symptoms())
    return 1.0 / math.sqrt(having) if having else 0.2


@functools.cache
def _stems_of(text: str) -> frozenset[str]:
    words = (SAME.get(word, word) for word in re.findall(r"[a-z0-9.]+", text.lower().replace("'", "")))
    return frozenset(_stem(word) for word in words if word not in COMMON)


def _stems(text: str) -> set[str]:
    return set(_stems_of(text))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return word.removesuffix(ending)
    return word


def list_symptoms(*, paint: Paint = plain) -> str:
    """The names, for who has not said one."""
    lines = [paint("What do you see?", "bold"), ""]
    lines += [f"  {symptom.name}" for symptom in symptoms()]
    return "\n".join([*lines, "", 'instep doctor --symptom "the loss is constant" lists what may be behind it.'])


def render_symptoms(found: Sequence[Symptom], *, width: int = PROSE, paint: Paint = plain) -> str:
    """The candidates of each, with their questions."""
    lines: list[str] = []
    for symptom in found:
        lines += [paint(f"{symptom.name[0].upper()}{symptom.name[1:]}", "bold"), ""]
        for id, question in symptom.candidates:
            lines += [f"  {paint(id, 'cyan')}: {CATALOGUE[id].title}"]
            lines += [f"      {line}" for line in wrapped(question, width - 6)]
        lines.append("")
    return "\n".join([*lines, "instep doctor --explain ID tells more; instep doctor train.py looks for all of them."])
