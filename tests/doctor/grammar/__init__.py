"""A small grammar of training scripts. A seed gives a script that is right; with a mutation it has that one mistake.

Each prints its losses, a hash of its last weights and the next random numbers, so that two runs can be compared.
`#!` at the end of a line of the parts marks where a finding may point; it is taken out of the source.
"""

from dataclasses import dataclass

from doctor.grammar.data import Lines, block, make, sets
from doctor.grammar.loops import average, evaluation, optimizer, rate, schedule_unit, scheduler, training
from doctor.grammar.models import criterion, net
from doctor.grammar.mutations import MUTATIONS
from doctor.grammar.plan import BY_BATCH, Plan, draw

HEAD = """
import copy
import hashlib
import io
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler as schedules
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler
from torch.utils.data import TensorDataset, WeightedRandomSampler, random_split

""".lstrip("\n").splitlines()
END = """
digest = hashlib.sha256()
for name, value in model.state_dict().items():
    digest.update(name.encode() + value.detach().float().contiguous().numpy().tobytes())
print(digest.hexdigest(), torch.rand(2).tolist(), random.random())
""".strip().splitlines()


@dataclass(frozen=True)
class Script:
    """A script, the ids of which one must be named (none in a right one), and the lines where it may be."""

    plan: Plan
    source: str
    ids: frozenset[str]
    lines: frozenset[int]

    @property
    def name(self) -> str:
        return f"{self.plan.mutation or 'right'}-{self.plan.seed}"


def write(seed: int, mutation: str = "") -> Script:
    """The script of a seed."""
    wanted = MUTATIONS[mutation] if mutation else None
    plan = draw(seed, mutation, wanted.wants if wanted else None)
    marked = _lines(plan)
    lines = frozenset(number for number, line in enumerate(marked, 1) if line.endswith("#!"))
    source = "\n".join(line.removesuffix("#!").rstrip() for line in marked) + "\n"
    return Script(plan, source, frozenset(wanted.ids) if wanted else frozenset(), lines)


def _lines(plan: Plan) -> Lines:
    seeds = [f"torch.manual_seed({plan.seed})", f"random.seed({plan.seed})"]
    above = [*make(plan), *sets(plan), *net(plan), *criterion(plan)]
    setup = _setup(plan)
    train, value = [*training(plan)], evaluation(plan) if plan.valid != "none" else []
    functions, call = _functions(plan, train, value)
    loop = [*setup, *functions, *_loop(plan, call), *_finish(plan)]
    if plan.style == "closures":
        return [*HEAD, *seeds, "", *block("def main():", [*above, *loop]), *block("if __name__ == '__main__':", ["main()"])]
    return [*HEAD, *seeds, "", *above, *loop]


def _setup(plan: Plan) -> Lines:
    """The model and what trains it."""
    parts = ["model = Net()", *_load(plan), *_freeze(plan)]
    made = [] if plan.mutation == "recreated" and plan.seed % 2 else optimizer(plan)
    parts += [*made, *_replaced(plan), *scheduler(plan)]
    if plan.checkpoint == "resume":
        names = "model, optimizer" + (", scheduler" if scheduler(plan) else "")
        parts = [*block("def build():", [*parts, f"return {names}"]), f"{names} = build()"]
    parts += average(plan)
    if plan.mutation in ("kept", "retained"):
        parts.append("kept = []")
    if plan.mutation == "no-train":
        parts.append("model.train()")
    return parts


def _load(plan: Plan) -> Lines:
    if plan.mutation == "bfloat16":
        return ["model = model.to(torch.bfloat16)"]
    if plan.mutation == "partial-load":
        return [
            "saved = {f'module.{name}': value for name, value in Net().state_dict().items()}",
            "model.load_state_dict(saved, strict=False)  #!",
        ]
    return []


def _freeze(plan: Plan) -> Lines:
    if plan.mutation == "typo":
        return block("for p in model.body.parameters():", ["p.require_grad = False  #!"])
    if plan.freeze not in ("start", "thaw"):
        return []
    if plan.seed % 3:
        return block("for p in model.body.parameters():", ["p.requires_grad = False"])
    return ["model.body.requires_grad_(False)"]


def _replaced(plan: Plan) -> Lines:
    if plan.mutation == "stale":
        return ["model.head = nn.Linear(model.head.in_features, model.head.out_features)"]
    return []


def _functions(plan: Plan, train: Lines, value: Lines) -> tuple[Lines, Lines]:
    """Functions of the script, and the lines that train and judge in an epoch."""
    if plan.style == "flat":
        if plan.valid == "decorated":
            return _evaluate(plan, "", value), [*train, "value, score = evaluate()"]
        return [], [*train, *(value or ["value, score = total / count, 0.0"])]
    receiver = "self, " if plan.style == "class" else ""
    unpack = ["model, optimizer = self.model, self.optimizer"] if plan.style == "class" and _has_one(plan) else []
    lines = block(f"def train_epoch({receiver}epoch):", [*unpack, *train, "return total / count"])
    if value:
        lines += _evaluate(plan, receiver.rstrip(", "), ["model = self.model", *value] if plan.style == "class" else value)
    owner = ""
    if plan.style == "class":
        optimizers = "optimizer" if _has_one(plan) else "None"
        init = block("def __init__(self, model, optimizer):", ["self.model, self.optimizer = model, optimizer"])
        lines = [*block("class Runner:", [*init, *lines]), f"runner = Runner(model, {optimizers})"]
        owner = "runner."
    judge = f"value, score = {owner}evaluate()" if value else "value, score = total, 0.0"
    return lines, [f"total = {owner}train_epoch(epoch)", judge]


def _evaluate(plan: Plan, receiver: str, value: Lines) -> Lines:
    decorator = ["@torch.no_grad()"] if plan.valid == "decorated" and plan.mutation != "no-no-grad" else []
    return [*decorator, *block(f"def evaluate({receiver}):", [*value, "return value, score"])]


def _has_one(plan: Plan) -> bool:
    """Whether there is an `optimizer` before the loop begins."""
    return plan.optimizer not in ("two", "hand") and not (plan.mutation == "recreated" and plan.seed % 2)


def _loop(plan: Plan, call: Lines) -> Lines:
    half, inside = plan.epochs // 2, []
    if plan.mutation == "schedule-first" and plan.schedule not in BY_BATCH:
        inside.append("scheduler.step()  #!")
    if plan.freeze == "later":
        forget = [] if plan.mutation == "frozen-moves" else ["p.grad = None"]
        inside += block(f"if epoch == {half}:", block("for p in model.body.parameters():", ["p.requires_grad_(False)", *forget]))
    if plan.freeze == "thaw":
        thaw = ["model.body.requires_grad_(True)", "rest = [p for n, p in model.named_parameters() if not n.startswith('head')]"]
        inside += block(f"if epoch == {half}:", [*thaw, f"optimizer.add_param_group(dict(params=rest, lr={rate(plan) / 2}))"])
    if plan.schedule == "hand":
        inside += block("for group in optimizer.param_groups:", [f"group['lr'] = {rate(plan)} * 0.9 ** epoch"])
    inside += call
    if schedule_unit(plan) == "epoch" and plan.mutation != "schedule-first":
        inside.append("scheduler.step()  #!")
    if plan.schedule == "plateau":
        inside.append(f"scheduler.step({'score' if plan.mutation == 'plateau-sign' else 'value'})  #!")
    inside += _keep(plan)
    shown = "total if isinstance(total, float) else float(total)"
    best = ["best = float('inf')"] if plan.checkpoint in ("best", "best-file") else []
    return [*best, *block(f"for epoch in range({plan.epochs}):", [*inside, f"print(epoch, {shown}, value, score)"])]


def _keep(plan: Plan) -> Lines:
    """Checkpoints, at the end of an epoch."""
    if plan.checkpoint == "save":
        return ["torch.save(dict(model=model.state_dict(), epoch=epoch), io.BytesIO())"]
    if plan.checkpoint == "best":
        state = "model.state_dict()" if plan.mutation == "best-aliased" else "copy.deepcopy(model.state_dict())"
        return block("if value < best:", ["best = value", f"best_state = {state}  #!"])
    if plan.checkpoint == "best-file":
        return block("if value < best:", ["best = value", "torch.save(model.state_dict(), 'best.pt')"])
    if plan.checkpoint != "resume":
        return []
    names = ["model", "optimizer", *(["scheduler"] if scheduler(plan) else [])]
    saved = ", ".join(f"{name}={name}.state_dict()" for name in names)
    again = [f"torch.save(dict({saved}), 'last.pt')", "saved = torch.load('last.pt', weights_only=False)"]
    again += [f"{', '.join(names)} = build()", *(f"{name}.load_state_dict(saved['{name}'])" for name in names)]
    return block(f"if epoch == {plan.epochs // 2}:", again)


def _finish(plan: Plan) -> Lines:
    load = {"best": "best_state", "best-file": "torch.load('best.pt')"}.get(plan.checkpoint)
    lines = [f"model.load_state_dict({load})  #!"] if load is not None else []
    ending = {"exit-0": ["sys.exit(0)"], "exit-5": ["sys.exit(5)"], "raises": ["raise RuntimeError('on purpose')"]}
    return [*lines, *END, *ending.get(plan.ending, [])]
