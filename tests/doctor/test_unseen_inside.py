"""Where the doctor cannot look inside: weights that are sharded (DTensor), code that is compiled (`fullgraph=True`).

It watches what it can, disturbs nothing, compiles nothing again, and says at the end what it did not watch.
"""

import os
from pathlib import Path

import pytest

from doctor.casebook import Examination
from doctor.pairs import complaints, pairs
from programs import Programs

MODULES = {
    "sharding": ["torch.distributed.fsdp", "torch.distributed.tensor.parallel"],
    "compiling": ["torch._dynamo", "functorch.compile", "networkx"],
}
SAID = {
    "sharding": "parameters are sharded over processes (DTensor): each process looked at the part that it holds;",
    "compiling": "losses, layers and dropouts inside it were not watched, its gradients and steps were.",
}


@pytest.mark.parametrize("kind", MODULES)
def test_what_can_be_seen_is_watched_and_the_rest_is_said(kind: str, tmp_path: Path, programs: Programs) -> None:
    cases = [(pair, pair.write(tmp_path, which)) for pair in pairs(kind) for which in ("wrong", "right")]
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    with Examination(jobs=jobs, modules=MODULES[kind], programs=programs) as examination:
        for watched in (True, False):
            examination.send([script for _, script in cases], watched=watched)
        answers = [
            (pair, script, examination.answer(script), examination.answer(script, watched=False)) for pair, script in cases
        ]
    wrong = [line for answer in answers for line in complaints(*answer)]
    wrong += [f"{pair.name} does not say it: {answer['remarks']}" for pair, _, answer, _ in answers if not is_said(kind, answer)]
    assert not wrong, "\n".join(wrong)


def is_said(kind: str, answer: dict[str, list[str]]) -> bool:
    return any(SAID[kind] in remark for remark in answer["remarks"])
