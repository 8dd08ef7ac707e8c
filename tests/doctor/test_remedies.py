"""Every remedy does in memory what the fix of its finding does in the source, and nothing elsewhere."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.remedies import REMEDIES
from programs import Programs

HEAD = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.utils import clip_grad_norm_
    from torch.utils.data import DataLoader, DistributedSampler
    from torch.optim import SGD, lr_scheduler
    seen = []
"""
LR = "seen.append(round(optimizer.param_groups[0]['lr'], 6))"
# For each id: the evidence that its remedy reads, a script with the mistake whose line ends in `# here`, what it sees in the
# variable `seen` when the fix is at work, and how often that acted.
CASES: dict[str, tuple[dict[str, Any], str, Any, int]] = {
    "softmax-before-cross-entropy": (
        {},
        """
        y = torch.tensor([3])
        logits = 100.0 * F.one_hot(y, 10)
        for given in (logits.softmax(1), nn.Softmax(1)(logits), F.softmax(logits, 1).view(1, 10), logits):
            seen.append(round(F.cross_entropy(given, y).item(), 3))  # here
        """,
        [0, 0, 0, 0], 3,
    ),
    "sigmoid-before-bce-logits": (
        {},
        """
        y = torch.tensor([1.0])
        logits = torch.tensor([20.0], requires_grad=True)
        for given in (logits.sigmoid(), nn.Sigmoid()(logits), torch.sigmoid(logits)[:], logits):
            seen.append(round(nn.BCEWithLogitsLoss()(given, y).item(), 3))  # here
        """,
        [0, 0, 0, 0], 3,
    ),
    "nll-on-unnormalised": (
        {},
        """
        x, y = torch.tensor([[2.0, 1.0]]), torch.tensor([0])
        for given in (x, x.softmax(1), x.log_softmax(1)):
            seen.append(round(F.nll_loss(given, y).item(), 3))  # here
        """,
        [0.313, 0.313, 0.313], 2,
    ),
    "kl-on-probabilities": (
        {},
        """
        p = torch.tensor([[0.7, 0.3]])
        seen = [round(abs(F.kl_div(given, p).item()), 3) for given in (p, p.log())]  # here
        """,
        [0, 0], 1,
    ),
    "loss-broadcast": (
        {},
        """
        y = torch.arange(4.0)
        seen = [F.mse_loss(given, y).item() for given in (y.unsqueeze(1), y)]  # here
        """,
        [0, 0], 1,
    ),
    "padding-in-loss": (
        {"value": 0},
        """
        logits, y = 10.0 * torch.eye(3)[[0, 0]], torch.tensor([1, 0])
        seen.append(round(nn.CrossEntropyLoss()(logits, y).item(), 3))  # here
        seen.append(round(F.cross_entropy(logits, y).item(), 3))
        """,
        [10.0, 5.0], 1,
    ),
    "accumulation-not-divided": (
        {"backwards_per_step": 4},
        """
        w = torch.zeros(1, requires_grad=True)
        for x in torch.arange(8.0).chunk(4):
            (x * w).mean().backward()  # here
        (2 * w).backward()
        seen = w.grad.item()
        """,
        3.5 + 2, 4,
    ),
    "missing-zero-grad": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer = SGD([w], lr=1.0)
        for _ in range(3):
            for _ in range(2):  # two micro-batches a step stay together
                w.sum().backward()
            optimizer.step()  # here
            seen.append(w.item())
        """,
        [-2.0, -4.0, -6.0], 2,
    ),
    "zero-grad-before-step": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer = SGD([w], lr=1.0)
        for _ in range(3):
            w.sum().backward()
            optimizer.zero_grad()  # here
            optimizer.step()
            seen.append(w.item())
        """,
        [-1.0, -2.0, -3.0], 3,
    ),
    "step-before-backward": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer = SGD([w], lr=1.0)
        for _ in range(3):
            optimizer.zero_grad()
            loss = w.sum()
            optimizer.step()  # here
            loss.backward()
            seen.append(w.item())
        """,
        [-1.0, -2.0, -3.0], 3,
    ),
    "clip-after-step": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer = SGD([w], lr=1.0)
        for _ in range(3):
            optimizer.zero_grad()
            (100 * w).sum().backward()
            optimizer.step()
            norm = clip_grad_norm_([w], 1.0)  # here
            seen.append(round(w.item()))
        """,
        [-100, -101, -102], 2,
    ),
    "clip-of-partial-cycle": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer = SGD([w], lr=1.0)
        for slope in (10.0, -9.0):
            (slope * w).sum().backward()
            torch.nn.utils.clip_grad_norm_(iter([w]), 1.0)  # here
        optimizer.step()
        seen = round(w.item(), 3)
        """,
        -1.0, 1,
    ),
    "clip-before-unscale": (
        {},
        """
        w = torch.zeros(1, requires_grad=True)
        optimizer, scaler = SGD([w], lr=1.0), torch.amp.GradScaler("cpu")
        scaler.scale((5 * w).sum()).backward()
        clip_grad_norm_([w], 1.0)  # here
        scaler.step(optimizer)
        seen = round(w.item(), 3)
        """,
        -1.0, 1,
    ),
    "evaluated-in-train-mode": (
        {},
        """
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        with torch.no_grad():
            a, b = (model(torch.ones(64, 4)) for _ in range(2))  # here
            c, d = (model(torch.ones(64, 4)) for _ in range(2))
        seen = [torch.equal(a, b), torch.equal(c, d), all(m.training for m in model.modules())]
        """,
        [True, False, True], 2,
    ),
    "trained-in-eval-mode": (
        {},
        """
        model = nn.BatchNorm1d(1).eval()
        with torch.no_grad():
            model(torch.randn(8, 1) + 5)
        model(torch.randn(8, 1) + 5)  # here
        seen = [bool(model.running_mean > 0), model.num_batches_tracked.item(), model.training]
        """,
        [True, 1, False], 1,
    ),
    "dropout-in-eval": (
        {},
        """
        class Net(nn.Module):
            def forward(self, x):
                return F.dropout(x, 0.5)  # here
        model = Net().eval()
        seen = [(model(torch.ones(1000)) == 0).sum().item(), bool((model.train()(torch.ones(1000)) == 0).any())]
        """,
        [0, True], 1,
    ),
    "frozen-batchnorm-moves": (
        {},
        """
        frozen, free = nn.BatchNorm1d(1).requires_grad_(False), nn.BatchNorm1d(1)
        free(frozen(torch.randn(8, 1) + 5))  # here
        seen = [norm.num_batches_tracked.item() for norm in (frozen, free)]
        """,
        [0, 1], 1,
    ),
    "batch-first": (
        {"layer": "LSTM", "batch_first": False},
        """
        layer, x = nn.LSTM(3, 5), torch.randn(4, 10, 3)
        other = torch.cat((torch.randn(1, 10, 3), x[1:]))
        seen = [torch.allclose(layer(x)[0][1:], layer(other)[0][1:]), layer.batch_first]  # here
        """,
        [True, False], 2,
    ),
    "schedule-wrong-unit": (
        {"scheduler": "StepLR", "scheduler_steps": 12, "optimizer_steps": 12},
        f"""
        optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule, loader = lr_scheduler.StepLR(optimizer, 1), DataLoader(range(8), batch_size=2)
        for epoch in range(3):
            for batch in loader:
                optimizer.step()
                schedule.step()  # here
            {LR}
        """,
        [1.0, 0.1, 0.01], 2,
    ),
    "scheduler-before-optimizer": (
        {},
        f"""
        optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule = lr_scheduler.StepLR(optimizer, 1)
        for epoch in range(3):
            schedule.step()  # here
            {LR}
            optimizer.step()
        """,
        [1.0, 0.1, 0.01], 1,
    ),
    "lambda-absolute-lr": (
        {},
        f"""
        optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
        schedule = lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.01 * 0.5**epoch)  # here
        {LR}
        optimizer.step()
        schedule.step()
        {LR}
        """,
        [0.01, 0.005], 1,
    ),
    "plateau-wrong-sign": (
        {"mode": "min"},
        f"""
        optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        for accuracy in (0.5, 0.6, 0.7, 0.8, 0.8, 0.8):
            schedule.step(accuracy)  # here
            {LR}
        """,
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.1], 1,
    ),
    "not-shuffled": (
        {},
        """
        loader, other = DataLoader(range(100), batch_size=100), DataLoader(range(100), batch_size=100)
        state = torch.get_rng_state()
        one, two = ([batch.tolist() for batch in loader] for _ in range(2))  # here
        kept = [batch.tolist() for batch in other]
        seen = [one != two, sorted(one[0]) == list(range(100)), kept == [list(range(100))]]
        """,
        [True, True, True], 1,
    ),
    "sampler-epoch-not-set": (
        {},
        """
        data = list(range(100))
        loader = DataLoader(data, sampler=DistributedSampler(data, num_replicas=2, rank=0))
        one, two = ([batch.item() for batch in loader] for _ in range(2))  # here
        seen = one != two
        """,
        True, 1,
    ),
    "same-batch-every-step": (
        {},
        """
        loader = DataLoader(range(6), batch_size=2)
        for _ in range(5):
            seen.append(next(iter(loader)).tolist())  # here
        """,
        [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]], 4,
    ),
}  # fmt: skip
PER_UPDATE = (
    {"scheduler": "OneCycleLR", "scheduler_steps": 3, "optimizer_steps": 12},
    """
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=13)
    for epoch in range(3):
        for _ in range(4):
            optimizer.step()
        schedule.step()  # here
    seen = optimizer.param_groups[0]["lr"] < 1e-5
    """,
    True,
    12,
)
MEASURED = "measured"  # softmax-before-cross-entropy, with the script's own loss left to it


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, programs: Programs) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("remedies")
    for name, (evidence, code, _, _) in {**CASES, "per-update": PER_UPDATE}.items():
        _write(folder, name, "schedule-wrong-unit" if name == "per-update" else name, evidence, code)
    code = """
        logits = (100.0 * torch.eye(10)[:1]).requires_grad_()
        seen = round(F.cross_entropy(logits.softmax(1), torch.tensor([0])).item(), 2)  # here
    """
    _write(folder, MEASURED, "softmax-before-cross-entropy", {}, code, measures_only=True)
    programs.run([str(Path(__file__).parent / "remedied.py"), str(folder)], check=True)
    names = (*CASES, "per-update", MEASURED)
    return {name: _read(folder / f"{name}.out.json") | {"as it is": _read(folder / f"{name}.as_it_is.json")} for name in names}


def _read(path: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"seen": "it failed"}
    return answer


def _write(folder: Path, name: str, id: str, evidence: dict[str, Any], code: str, *, measures_only: bool = False) -> None:
    source = dedent(HEAD) + dedent(code)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if text.endswith("# here"))
    told = {"id": id, "where": f"{name}.py:{line}", "evidence": evidence, "code": source, "measures_only": measures_only}
    (folder / f"{name}.json").write_text(json.dumps(told))


def test_every_remedy_is_tried() -> None:
    assert set(CASES) == set(REMEDIES) <= set(CATALOGUE)


@pytest.mark.parametrize("id", CASES)
def test_a_remedy_does_what_the_fix_does(id: str, answers: dict[str, dict[str, Any]]) -> None:
    _, _, seen, count = CASES[id]
    assert answers[id]["seen"] == seen
    assert answers[id]["count"] == count
    assert answers[id]["as it is"]["seen"] not in (seen, "it failed")


def test_a_schedule_by_updates(answers: dict[str, dict[str, Any]]) -> None:
    assert (answers["per-update"]["seen"], answers["per-update"]["count"]) == (True, 12)


def test_measuring_leaves_the_script_its_own_loss(answers: dict[str, dict[str, Any]]) -> None:
    assert answers[MEASURED]["seen"] == 1.46
    assert answers[MEASURED]["right"] == [pytest.approx(0, abs=1e-6)]
