"""The loop of a script: optimizer, schedule, one epoch of training, evaluation."""

from doctor.grammar.data import Lines, block, epoch_head
from doctor.grammar.models import loss, metric
from doctor.grammar.plan import BY_BATCH, BY_EPOCH, Plan

RATES = {"adam": 3e-3, "adamw": 3e-3, "amsgrad": 3e-3, "fused-adam": 3e-3, "nadam": 2e-3, "rmsprop": 2e-3, "adagrad": 0.02}
KINDS = {
    "sgd": "SGD({p}, lr={lr})",
    "momentum": "SGD({p}, lr={lr}, momentum=0.9)",
    "nesterov": "SGD({p}, lr={lr}, momentum=0.8, nesterov=True, weight_decay=1e-4)",
    "adam": "Adam({p}, lr={lr})",
    "adamw": "AdamW({p}, lr={lr}, weight_decay=0.01)",
    "amsgrad": "Adam({p}, lr={lr}, amsgrad=True)",
    "fused-adam": "Adam({p}, lr={lr}, fused=True)",
    "fused-sgd": "SGD({p}, lr={lr}, momentum=0.9, fused=True)",
    "foreach": "SGD({p}, lr={lr}, momentum=0.9, foreach=True)",
    "rmsprop": "RMSprop({p}, lr={lr})",
    "adagrad": "Adagrad({p}, lr={lr})",
    "nadam": "NAdam({p}, lr={lr})",
    "closure": "SGD({p}, lr={lr})",
    "lbfgs": "LBFGS({p}, lr=0.1, max_iter=2)",
}
OWN = """
class Own(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"])
""".strip().splitlines()


def rate(plan: Plan) -> float:
    if plan.mutation == "bfloat16":
        return 1e-4
    if plan.mutation == "huge-lr":
        return 200.0
    return RATES.get(plan.optimizer, 0.02 if plan.optimizer in ("momentum", "fused-sgd", "foreach") else 0.05)


def optimizer(plan: Plan) -> Lines:
    """`optimizer`, or several."""
    lr, params = rate(plan), "model.parameters()"
    if plan.freeze == "thaw" or plan.mutation == "body-forgotten":
        params = "model.head.parameters()"
    elif plan.mutation == "head-forgotten":
        params = "model.body.parameters()"
    elif plan.freeze == "start" and plan.seed % 2:
        params = "[p for p in model.parameters() if p.requires_grad]"
    elif plan.mutation == "clip-generator":
        params = "params"
    if plan.optimizer == "hand":
        return []
    if plan.optimizer == "own":
        return [*OWN, f"optimizer = Own({params}, {lr})"]
    if plan.optimizer == "two":
        return [
            "head_optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)",
            "others = [p for name, p in model.named_parameters() if not name.startswith('head')]",
            "body_optimizer = torch.optim.SGD(others, lr=0.05)",
        ]
    if plan.optimizer == "decay-groups":
        return [
            "decayed = [p for p in model.parameters() if p.dim() > 1]",
            "others = [p for p in model.parameters() if p.dim() <= 1]",
            "groups = [dict(params=decayed, weight_decay=0.01), dict(params=others, weight_decay=0.0)]",
            "optimizer = torch.optim.AdamW(groups, lr=3e-3)",
        ]
    if plan.optimizer == "head-group":
        return [
            "others = [p for name, p in model.named_parameters() if not name.startswith('head')]",
            "groups = [dict(params=others, lr=0.02), dict(params=model.head.parameters())]",
            "optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.5)",
        ]
    made = KINDS[plan.optimizer].format(p=params, lr=lr)
    first = ["params = model.parameters()"] if plan.mutation == "clip-generator" else []
    return [*first, f"optimizer = torch.optim.{made}  #!"]


def scheduler(plan: Plan) -> Lines:
    """`scheduler`, if there is one."""
    lr, epochs, updates = rate(plan), plan.epochs, plan.epochs * plan.updates
    factor = f"{lr} * 0.97 ** epoch" if plan.mutation == "lambda-lr" else "0.9 ** epoch"
    momentum = "" if "adam" in plan.optimizer or plan.optimizer == "decay-groups" else ", cycle_momentum=False"
    mode = "" if plan.mutation != "plateau-sign" else ", mode='min'"
    made = {
        "step": "StepLR(optimizer, 2, gamma=0.7)",
        "cosine": f"CosineAnnealingLR(optimizer, T_max={epochs})",
        "exponential": "ExponentialLR(optimizer, 0.9)",
        "multistep": f"MultiStepLR(optimizer, [{epochs // 2}, {epochs - 1}], gamma=0.3)",
        "lambda-epoch": f"LambdaLR(optimizer, lambda epoch: {factor})",
        "cosine-batch": f"CosineAnnealingLR(optimizer, T_max={updates})",
        "onecycle": f"OneCycleLR(optimizer, max_lr={2 * lr}, total_steps={updates}{momentum})",
        "warmup": "LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))",
        "linear": f"LinearLR(optimizer, 1.0, 0.1, total_iters={updates})",
        "sequential": f"SequentialLR(optimizer, [schedules.LinearLR(optimizer, 0.1, total_iters=8), "
        f"schedules.CosineAnnealingLR(optimizer, {max(updates - 8, 1)})], milestones=[8])",
        "plateau": f"ReduceLROnPlateau(optimizer, patience=1{mode})",
    }.get(plan.schedule)
    return [f"scheduler = schedules.{made}  #!"] if made is not None else []


def schedule_unit(plan: Plan) -> str:
    """When the schedule steps: "batch", "epoch", or ""."""
    unit = "batch" if plan.schedule in BY_BATCH else "epoch" if plan.schedule in BY_EPOCH else ""
    return {"schedule-by-batch": "batch", "schedule-by-epoch": "epoch"}.get(plan.mutation, unit)


def training(plan: Plan) -> Lines:
    """One epoch: gives `total` and `count`."""
    lines = optimizer(plan) if plan.mutation == "recreated" else []
    if plan.mutation != "no-train":
        lines.append("model.train()")
    if plan.has_batchnorm and plan.mutation != "frozen-batchnorm":
        if plan.freeze == "start":
            lines.append("model.body.eval()")
        elif plan.freeze in ("later", "thaw"):
            when = ">=" if plan.freeze == "later" else "<"
            lines += block(f"if epoch {when} {plan.epochs // 2}:", ["model.body.eval()"])
    before, head, get = epoch_head(plan)
    zero = "total, count = 0.0, 0"
    return [*lines, zero, *before, *block(head, [*get, *_batch(plan)])]


def _batch(plan: Plan) -> Lines:
    if plan.optimizer in ("closure", "lbfgs"):
        inside = ["optimizer.zero_grad()", *_forward(plan), "loss.backward()", *_clip(plan), "return loss"]
        return [*block("def closure():", inside), "loss = optimizer.step(closure)", *_after_step(plan), *_count(plan)]
    clear, m = _clear(plan), plan.mutation
    if m in ("no-clear", "clear-between"):
        clear = []
    if m == "step-first":
        return [*clear, *_forward(plan), *_step(plan), "loss.backward()  #!", *_after_step(plan), *_count(plan)]
    update = [*_clip(plan), *_step(plan)]
    if m == "clip-late":
        update = [*_step(plan), *_clip(plan)]
    if m == "clear-between":
        update = ["optimizer.zero_grad()  #!", *update]
    if m == "schedule-first" and plan.schedule in BY_BATCH:
        update = ["scheduler.step()  #!", *update]
    update += _after_step(plan)
    backward = [*_forward(plan), *_backward(plan)]
    if plan.cycle > 1:
        return _accumulation(plan, backward, update, clear)
    if plan.clear in ("after-step", "none-by-hand", "zero-by-hand") and m != "step-first":
        return [*backward, *update, *clear, *_count(plan)]
    if plan.clear == "before-backward":
        return [*_forward(plan), *clear, *_backward(plan), *update, *_count(plan)]
    return [*clear, *backward, *update, *_count(plan)]


def _accumulation(plan: Plan, backward: Lines, update: Lines, clear: Lines) -> Lines:
    m, last = plan.mutation, plan.batches + plan.ragged
    whole = last % plan.cycle == 0 or m == "tail"
    condition = f"if (i + 1) % {plan.cycle} == 0" + ("" if whole else f" or i + 1 == {last}") + ":"
    if m == "clear-each":
        return [*clear[:-1], f"{clear[-1]}  #!", *backward, *block(condition, update), *_count(plan)]
    if m == "clip-part":
        clip = _clip(plan)
        return [*backward, *clip, *block(condition, [*(line for line in update if line not in clip), *clear]), *_count(plan)]
    return [*backward, *block(condition, [*update, *clear]), *_count(plan)]


def _share(plan: Plan) -> str:
    """By how much each loss of an update is divided: a short last one has fewer."""
    last = plan.batches + plan.ragged
    if last % plan.cycle == 0 or plan.mutation == "tail":
        return str(plan.cycle)
    return f"min({plan.cycle}, {last} - i // {plan.cycle} * {plan.cycle})"


def _forward(plan: Plan) -> Lines:
    value = loss(plan)
    if plan.cycle > 1 and plan.seed % 2 and plan.mutation != "undivided":
        value = f"({value}) / {_share(plan)}"
    if not plan.amp:
        return ["out = model(x)  #!", f"loss = {value}  #!"]
    inside = ["out = model(x)  #!"]
    if plan.seed % 3 and plan.loss not in ("bce", "gaussian"):
        return block("with torch.autocast('cpu', dtype=torch.bfloat16):", [*inside, f"loss = {value}  #!"])
    return [*block("with torch.autocast('cpu', dtype=torch.bfloat16):", inside), "out = out.float()", f"loss = {value}  #!"]


def _backward(plan: Plan) -> Lines:
    m = plan.mutation
    if m == "detached":
        return ["loss = torch.tensor(loss.item(), requires_grad=True)", "loss.backward()  #!"]
    if m == "retained":
        return ["loss.backward(retain_graph=True)  #!"]
    if plan.cycle > 1 and not plan.seed % 2 and m != "undivided":
        return [f"(loss / {_share(plan)}).backward()  #!"]
    return ["loss.backward()  #!"]


def _clip(plan: Plan) -> Lines:
    given = "params" if plan.mutation == "clip-generator" else "model.parameters()"
    if plan.clip == "norm":
        return [f"nn.utils.clip_grad_norm_({given}, 1.0)  #!"]
    return [f"nn.utils.clip_grad_value_({given}, 0.5)  #!"] if plan.clip == "value" else []


def _clear(plan: Plan) -> Lines:
    if plan.optimizer == "two":
        return ["head_optimizer.zero_grad()", "body_optimizer.zero_grad()"]
    loop = "for p in model.parameters():"
    if plan.clear == "none-by-hand":
        return block(loop, ["p.grad = None"])
    if plan.clear == "zero-by-hand":
        return block(loop, block("if p.grad is not None:", ["p.grad.zero_()"]))
    return {"model": ["model.zero_grad()"], "in-place": ["optimizer.zero_grad(set_to_none=False)"]}.get(
        plan.clear, ["optimizer.zero_grad()"]
    )


def _step(plan: Plan) -> Lines:
    if plan.optimizer == "two":
        return ["head_optimizer.step()", "body_optimizer.step()"]
    if plan.optimizer != "hand":
        return ["optimizer.step()  #!"]
    write = "p -= 0.05 * p.grad" if plan.seed % 2 else "p.add_(p.grad, alpha=-0.05)"
    return block("with torch.no_grad():", block("for p in model.parameters():", [write]))


def _after_step(plan: Plan) -> Lines:
    lines = ["scheduler.step()  #!"] if schedule_unit(plan) == "batch" and plan.mutation != "schedule-first" else []
    if plan.ema == "copy" and plan.mutation != "teacher":
        pairs = "for a, b in zip(ema.parameters(), model.parameters()):"
        lines += block("with torch.no_grad():", block(pairs, ["a.lerp_(b, 0.1)"]))
        if plan.has_batchnorm:
            lines += block("for a, b in zip(ema.buffers(), model.buffers()):", ["a.copy_(b)"])
    if plan.ema == "averaged":
        lines.append("ema.update_parameters(model)")
    return lines


def _count(plan: Plan) -> Lines:
    if plan.mutation == "kept":
        return (
            ["total = total + loss * len(x)  #!", "count += len(x)"] if plan.seed % 2 else ["kept.append(loss)  #!", *_number()]
        )
    if plan.mutation == "retained":
        return ["kept.append(loss)", *_number()]
    return _number()


def _number() -> Lines:
    return ["total += loss.item() * len(x)", "count += len(x)"]


def evaluation(plan: Plan) -> Lines:
    """Gives `value` and `score`."""
    judged, m = ("ema" if plan.ema != "none" else "model"), plan.mutation
    lines = [f"{judged}.eval()"] if m != "no-eval" else [f"{judged}.eval"] if plan.seed % 2 else []
    if plan.ema == "averaged" and plan.has_batchnorm and m != "average-batchnorm" and not _has_buffers(plan):
        lines = ["torch.optim.swa_utils.update_bn(loader, ema)", *lines]
    forward = f"out = {judged}(x)  #!"
    value = loss(plan).replace("model.", f"{judged}.")
    guard = {"inference": "with torch.inference_mode():", "decorated": ""}.get(plan.valid, "with torch.no_grad():")
    if m == "no-no-grad":
        guard = ""
    if plan.valid == "whole":
        inside = ["x, y = valid_x, valid_y", forward, f"value, score = ({value}).item(), {metric(plan)}  #!"]
        return [*lines, *(block(guard, inside) if guard else inside)]
    each = [forward, f"value += ({value}).item() * len(x)", f"score += {metric(plan)} * len(x)  #!", "seen += len(x)"]
    loop = block("for x, y in valid_loader:  #!", each)
    return [
        *lines,
        "value, score, seen = 0.0, 0.0, 0",
        *(block(guard, loop) if guard else loop),
        "value, score = value / seen, score / seen",
    ]


def _has_buffers(plan: Plan) -> bool:
    """Whether the averaged model averages its buffers too: else its statistics are taken anew."""
    return plan.mutation != "average-batchnorm" and (plan.seed % 2 == 0 or plan.data not in ("loader", "dataset", "split"))


def average(plan: Plan) -> Lines:
    """`ema`, if there is one."""
    if plan.mutation == "teacher":
        return ["ema = model  #!"]
    if plan.ema == "copy":
        return ["ema = copy.deepcopy(model)", *block("for p in ema.parameters():", ["p.requires_grad_(False)"])]
    if plan.ema == "averaged":
        buffers = ", use_buffers=True" if plan.has_batchnorm and _has_buffers(plan) else ""
        moving = ", multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)" if plan.mutation != "average-batchnorm" else ""
        return [f"ema = torch.optim.swa_utils.AveragedModel(model{moving}{buffers})"]
    return []
