"""The data of a script: what `make` draws, the loaders, and the head of the loop over an epoch's batches."""

from doctor.grammar.plan import LOADERS, Plan

CLASSES, WORDS, LENGTH = 4, 16, 7
FEATURES = {"rows": 8, "images": 64, "sequence": 5, "tokens": WORDS}
Lines = list[str]


def block(head: str, lines: Lines) -> Lines:
    """Lines under a head, indented."""
    return [head, *(f"    {line}" for line in lines)]


def rows_of(plan: Plan) -> int:
    return plan.batch * plan.batches + 3 * plan.ragged


def make(plan: Plan) -> Lines:
    """`make(count)` draws inputs and targets: targets follow from inputs, with a little noise."""
    if plan.kind == "text":
        return _text(plan)
    if plan.kind == "autoencoder":
        return [
            "TRUE = torch.randn(3, 8)",
            *block("def make(count):", ["x = torch.randn(count, 3) @ TRUE + 0.1 * torch.randn(count, 8)", "return x, x"]),
        ]
    inputs, features = {
        "rows": ("torch.randn(count, 8)", "x"),
        "images": ("torch.randn(count, 1, 8, 8)", "x.flatten(1)"),
        "sequence": ("torch.randn(count, 6, 5)", "x.sum(1)"),
        "tokens": (f"torch.randint(1, {WORDS}, (count, {LENGTH}))", f"F.one_hot(x, {WORDS}).float().sum(1)"),
    }[plan.kind]
    return [
        f"TRUE = torch.randn({FEATURES[plan.kind]}, {CLASSES})",
        *block("def make(count):", [f"x = {inputs}", f"score = {features} @ TRUE", *_targets(plan), "return x, y"]),
    ]


def _targets(plan: Plan) -> Lines:
    if plan.head == "classes":
        if plan.mutation == "single-class":
            return ["y = torch.zeros(count, dtype=torch.long)"]
        ignored = ["y[::9] = -100"] if plan.loss == "ignore" else []
        order = ["order = y.argsort()", "x, y = x[order], y[order]"] if plan.mutation == "not-shuffled" else []
        return ["y = score.argmax(1)", *ignored, *order]
    if plan.head == "binary":
        high = " * 255" if plan.mutation == "targets-255" else ""
        return [f"y = (score[:, 0] > 0).float(){high}"]
    column = "[:, None]" if plan.mutation == "loss-broadcast-column" else ""
    scale = "score.std(0)[0]" if plan.kind != "rows" else "3"
    return [f"y = (score[:, 0] / {scale} + 0.1 * torch.randn(count)){column}"]


def _text(plan: Plan) -> Lines:
    follow = f"(rows[-1] * 3 + 1) % {WORDS - 1} + 1"
    lines = [
        f"rows = [torch.randint(1, {WORDS}, (count,))]",
        *block(
            f"for _ in range({LENGTH}):",
            [
                f"other = torch.randint(1, {WORDS}, (count,))",
                f"rows.append(torch.where(torch.rand(count) < 0.6, {follow}, other))",
            ],
        ),
        "text = torch.stack(rows, 1)",
    ]
    if plan.loss == "padded":
        lines += [
            f"lengths = torch.randint(3, {LENGTH + 2}, (count, 1))",
            f"text = text.masked_fill(torch.arange({LENGTH + 1}) >= lengths, 0)",
        ]
    return block("def make(count):", [*lines, "return text[:, :-1], text[:, 1:]"])


def sets(plan: Plan) -> Lines:
    """`train_x, train_y, valid_x, valid_y`, and loaders where there are any."""
    count, valid = rows_of(plan), 32
    if plan.data == "split":
        lines = [
            f"everything = TensorDataset(*make({count + valid}))",
            f"train_set, valid_set = random_split(everything, [{count}, {valid}])",
            "valid_x, valid_y = everything[valid_set.indices]",
        ]
    elif plan.data == "stream":
        lines = [f"valid_x, valid_y = make({valid})", "valid_set = TensorDataset(valid_x, valid_y)"]
        lines += [*block("def stream():", block("while True:", [f"yield make({plan.batch})"])), "source = stream()"]
    else:
        lines = [f"train_x, train_y = make({count})", *_valid_rows(plan, valid), *_tensor_sets(plan)]
    return [*lines, *_train_loader(plan), *_valid_loader(plan), *_batches_by_hand(plan)]


def _valid_rows(plan: Plan, count: int) -> Lines:
    if plan.mutation == "overlap":
        return [f"valid_x, valid_y = train_x[-{count}:], train_y[-{count}:]"]
    return [f"valid_x, valid_y = make({count})"]


def _tensor_sets(plan: Plan) -> Lines:
    if plan.data != "dataset":
        return ["train_set, valid_set = TensorDataset(train_x, train_y), TensorDataset(valid_x, valid_y)"]
    lines = block(
        "class Rows(Dataset):",
        [
            *block("def __init__(self, x, y, augment):", ["self.x, self.y, self.augment = x, y, augment"]),
            *block("def __len__(self):", ["return len(self.x)"]),
            *block(
                "def __getitem__(self, i):",
                [
                    "x = self.x[i]",
                    *block("if self.augment:", ["x = x + 0.05 * torch.randn_like(x)"]),
                    "return x, self.y[i]",
                ],
            ),
        ],
    )
    wrong = plan.mutation == "augmented-validation"
    return [*lines, f"train_set, valid_set = Rows(train_x, train_y, True), Rows(valid_x, valid_y, {wrong})"]


def _train_loader(plan: Plan) -> Lines:
    batch = f"batch_size={1 if plan.mutation == 'batch-of-one' else plan.batch}"
    if plan.data == "iterable":
        shuffled = block("class Shuffled(IterableDataset):", block("def __iter__(self):", _shuffled_rows()))
        return [*shuffled, f"loader = DataLoader(Shuffled(), {batch})"]
    if plan.data == "sampler":
        sampler = (
            "sampler=RandomSampler(train_set, generator=torch.Generator().manual_seed(1))",
            "sampler=WeightedRandomSampler(torch.ones(len(train_set)), len(train_set))",
            f"batch_sampler=BatchSampler(RandomSampler(train_set), {plan.batch}, drop_last=False)",
            "sampler=DistributedSampler(train_set, num_replicas=1, rank=0)",
        )[3 if plan.mutation == "sampler-epoch" else plan.seed % 4]
        return [f"loader = DataLoader(train_set, {'' if 'batch_sampler' in sampler else batch + ', '}{sampler})"]
    if plan.data in LOADERS:
        order = {"not-shuffled": "  #!", "same-batch": ""}.get(plan.mutation)
        last = ", drop_last=True" if not plan.ragged and plan.seed % 2 else ""
        return [f"loader = DataLoader(train_set, {batch}{', shuffle=True' if order is None else ''}{last}){order or ''}"]
    return []


def _shuffled_rows() -> Lines:
    return block("for i in torch.randperm(len(train_x)).tolist():", ["yield train_x[i], train_y[i]"])


def _valid_loader(plan: Plan) -> Lines:
    if plan.valid in ("none", "whole"):
        return []
    return ["valid_loader = DataLoader(valid_set, batch_size=16)"]


def _batches_by_hand(plan: Plan) -> Lines:
    if plan.data != "batches":
        return []
    order = "torch.arange(len(train_x))" if plan.mutation == "not-shuffled" else "torch.randperm(len(train_x))"
    rows = [
        f"rows = order[start:start + {plan.batch}]",
        "yield train_x[rows], train_y[rows]",
    ]
    return block("def batches():", [f"order = {order}", *block(f"for start in range(0, len(train_x), {plan.batch}):", rows)])


def epoch_head(plan: Plan) -> tuple[Lines, str, Lines]:
    """Lines before the loop over the batches of an epoch, its head, and the lines that get `x` and `y`."""
    if plan.mutation == "same-batch":
        return [], f"for i in range({plan.batches}):", ["x, y = next(iter(loader))  #!"]
    if plan.data in LOADERS or plan.data == "iterable":
        counted = plan.data == "sampler" and plan.seed % 4 == 3 and plan.mutation != "sampler-epoch"
        return ["loader.sampler.set_epoch(epoch)"] if counted else [], "for i, (x, y) in enumerate(loader):  #!", []
    if plan.data == "batches":
        return [], "for i, (x, y) in enumerate(batches()):", []
    if plan.data == "stream":
        return [], f"for i, (x, y) in zip(range({plan.batches}), source):", []
    if plan.data == "random":
        draw = f"rows = torch.randint(len(train_x), ({plan.batch},))"
        return [], f"for i in range({plan.batches}):", [draw, "x, y = train_x[rows], train_y[rows]"]
    order = "torch.arange" if plan.mutation == "not-shuffled" else "torch.randperm"
    head = f"for i, start in enumerate(range(0, len(train_x), {plan.batch})):"
    return (
        [f"order = {order}(len(train_x))"],
        head,
        [f"rows = order[start:start + {plan.batch}]", "x, y = train_x[rows], train_y[rows]"],
    )
