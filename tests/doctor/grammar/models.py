"""The model of a script, and its loss."""

from doctor.grammar.data import CLASSES, FEATURES, LENGTH, WORDS, Lines, block
from doctor.grammar.plan import Plan

WIDTH = 12


def outputs(plan: Plan) -> int:
    """Numbers that the head gives for a sample."""
    if plan.mutation == "single-class":
        return 1
    return {"classes": CLASSES, "binary": 1, "values": 2 if plan.loss == "gaussian" else 1}.get(plan.head, WORDS)


def net(plan: Plan) -> Lines:
    """`class Net`."""
    made, given = _body(plan)
    if plan.head not in ("text", "same"):
        made += [f"self.head = nn.Linear({WIDTH}, {outputs(plan)})"]
        result = "self.head(h)"
        if outputs(plan) == 1 and plan.mutation not in ("loss-broadcast", "single-class"):
            result += ".squeeze(-1)"
        given += _last(plan, result)
    made, given = _mutated(plan, made, given)
    if plan.mutation == "bfloat16":
        given = ["x = x.to(torch.bfloat16)", *given[:-1], f"{given[-1]}.float()"]
    init = block("def __init__(self):", ["super().__init__()", *made])
    helper = _reparametrise(plan)
    return block("class Net(nn.Module):", [*init, *block("def forward(self, x):", given), *helper])


def _last(plan: Plan, result: str) -> Lines:
    """The end of `forward`, with what must not be there in a mutation."""
    return {
        "softmax-in-model": [f"return {result}.softmax(-1)"],
        "softmax-over-batch": [f"return {result}.softmax(0)  #!"],
        "sigmoid-in-model": [f"return torch.sigmoid({result})"],
    }.get(plan.mutation, [f"return {result}"])


def _mutated(plan: Plan, made: Lines, given: Lines) -> tuple[Lines, Lines]:
    if plan.mutation == "zero-weights":
        return [*made, *block("for p in self.parameters():", ["nn.init.zeros_(p)"])], given
    if plan.mutation == "unused-layer":
        return [*made, f"self.extra = nn.Linear({WIDTH}, {WIDTH})"], given
    if plan.mutation == "dropout-1":
        return [*made, "self.drop = nn.Dropout(1.0)"], [*given[:-1], "h = self.drop(h)  #!", given[-1]]
    return made, given


def _body(plan: Plan) -> tuple[Lines, Lines]:
    if plan.kind == "rows":
        return _rows(plan)
    if plan.kind == "images":
        return _images(plan)
    if plan.kind == "sequence":
        return _sequence(plan)
    if plan.kind == "tokens":
        return _tokens(plan)
    return _text(plan) if plan.kind == "text" else _autoencoder(plan)


def _rows(plan: Plan) -> tuple[Lines, Lines]:
    n, w = FEATURES["rows"], WIDTH
    if plan.body == "residual":
        hold = f"[nn.Linear({w}, {w}) for _ in range(2)]"
        listed = f"self.blocks = {hold}" if plan.mutation == "unregistered" else f"self.blocks = nn.ModuleList({hold})"
        made = [f"self.body = nn.Linear({n}, {w})", listed, "self.drop = nn.Dropout(0.1)"]
        return made, ["h = self.body(x)", *block("for each in self.blocks:", ["h = h + self.drop(torch.tanh(each(h)))"])]
    if plan.body == "functional-dropout":
        training = "" if plan.mutation == "functional-dropout" else ", training=self.training"
        made = [f"self.body = nn.Linear({n}, {w})", f"self.second = nn.Linear({w}, {w})"]
        return made, ["h = torch.relu(self.body(x))", f"h = F.dropout(h, 0.2{training})  #!", "h = torch.tanh(self.second(h))"]
    middle = {
        "mlp": "nn.ReLU()",
        "mlp-norm": f"nn.BatchNorm1d({w}), nn.ReLU()",
        "mlp-dropout": "nn.ReLU(), nn.Dropout(0.2)",
        "mlp-layernorm": f"nn.LayerNorm({w}), nn.GELU()",
    }[plan.body]
    return [f"self.body = nn.Sequential(nn.Linear({n}, {w}), {middle}, nn.Linear({w}, {w}), nn.Tanh())"], ["h = self.body(x)"]


def _images(plan: Plan) -> tuple[Lines, Lines]:
    norm = "nn.BatchNorm2d(4)" if plan.body == "cnn" else "nn.GroupNorm(2, 4)"
    first = f"nn.Conv2d(1, 4, 3, stride=2, padding=1), {norm}, nn.ReLU(), nn.Flatten()"
    return [f"self.body = nn.Sequential({first}, nn.Linear(64, {WIDTH}), nn.Tanh())"], ["h = self.body(x)"]


def _encoder(batch_first: bool = True) -> str:
    first = ", batch_first=True" if batch_first else ""
    return f"nn.TransformerEncoderLayer({WIDTH}, 2, 16, dropout=0.1{first})"


def _sequence(plan: Plan) -> tuple[Lines, Lines]:
    n, w = FEATURES["sequence"], WIDTH
    if plan.body == "lstm":
        first = "" if plan.mutation == "batch-first" else ", batch_first=True"
        return [f"self.rnn = nn.LSTM({n}, {w}{first})"], ["steps, _ = self.rnn(x)  #!", "h = steps[:, -1]"]
    if plan.body == "gru-time":
        if plan.mutation == "batch-first":
            return [f"self.rnn = nn.GRU({n}, {w})"], ["_, last = self.rnn(x)  #!", "h = self.rnn(x)[0].mean(1)  #!"]
        turn = f"x.reshape(x.shape[1], x.shape[0], {n})  #!" if plan.mutation == "viewed" else "x.transpose(0, 1)"
        return [f"self.rnn = nn.GRU({n}, {w})"], [f"turned = {turn}", "_, last = self.rnn(turned)  #!", "h = last[0]"]
    if plan.body == "encoder":
        return [f"self.enter = nn.Linear({n}, {w})", f"self.encoder = {_encoder()}"], ["h = self.encoder(self.enter(x)).mean(1)"]
    return [f"self.conv = nn.Conv1d({n}, {w}, 3, padding=1)"], ["h = torch.relu(self.conv(x.transpose(1, 2))).amax(2)"]


def _tokens(plan: Plan) -> tuple[Lines, Lines]:
    w = WIDTH
    if plan.body == "bag":
        return [f"self.bag = nn.EmbeddingBag({WORDS}, {w}, mode='mean')"], ["h = self.bag(x)"]
    embed = f"self.embed = nn.Embedding({WORDS}, {w}, padding_idx=0)"
    if plan.body == "mean":
        return [embed, f"self.mix = nn.Linear({w}, {w})"], ["h = torch.relu(self.mix(self.embed(x).mean(1)))"]
    if plan.body == "gru":
        return [embed, f"self.rnn = nn.GRU({w}, {w}, batch_first=True)"], [
            "steps, last = self.rnn(self.embed(x))",
            "h = last[-1]",
        ]
    return [embed, f"self.encoder = {_encoder()}"], ["h = self.encoder(self.embed(x)).mean(1)"]


def _text(plan: Plan) -> tuple[Lines, Lines]:
    w = WIDTH
    made = [f"self.embed = nn.Embedding({WORDS}, {w})", f"self.place = nn.Parameter(0.1 * torch.randn({LENGTH}, {w}))"]
    given = ["h = self.embed(x) + self.place[: x.shape[1]]"]
    if plan.body == "causal":
        made += [f"self.encoder = {_encoder()}"]
        mask = "mask=mask, is_causal=True"
        given += [] if plan.mutation == "leak" else ["mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])"]
        given += [f"h = self.encoder(h{'' if plan.mutation == 'leak' else ', src_' + mask})"]
    elif plan.body == "attention":
        made += [f"self.qkv = nn.Linear({w}, {3 * w})", f"self.mix = nn.Linear({w}, {w})"]
        causal = "" if plan.mutation == "leak" else ", is_causal=True"
        given += [
            "q, k, v = self.qkv(h).chunk(3, -1)",
            f"h = h + torch.relu(self.mix(F.scaled_dot_product_attention(q, k, v{causal})))",
        ]
    else:
        made += [f"self.rnn = nn.GRU({w}, {w}, batch_first=True)"]
        given += ["h, _ = self.rnn(h)"]
    made += [f"self.head = nn.Linear({w}, {WORDS}, bias=False)"]
    if plan.mutation == "copied-weights":
        made += ["self.head.weight.data.copy_(self.embed.weight.data)"]
    elif plan.tied:
        made += ["self.head.weight = self.embed.weight"]
    return made, [*given, "return self.head(h)"]


def _autoencoder(plan: Plan) -> tuple[Lines, Lines]:
    made = ["self.encode = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))"]
    made += ["self.decode = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 8))"]
    if plan.body == "vae":
        made += ["self.spread = nn.Linear(4, 4)"]
        return made, [
            "middle = self.encode(x)",
            "self.log_variance = self.spread(middle)",
            "self.middle = middle",
            "return self.decode(self.draw(middle, self.log_variance))",
        ]
    noise = [*block("if self.training:", ["x = x + 0.1 * torch.randn_like(x)"])] if plan.body == "denoise" else []
    return made, [*noise, "return self.decode(self.encode(x))"]


def _reparametrise(plan: Plan) -> Lines:
    if plan.body != "vae":
        return []
    inside = [
        *block("if not self.training:", ["return mean"]),
        "return mean + torch.randn_like(mean) * (0.5 * log_variance).exp()",
    ]
    return block("def draw(self, mean, log_variance):", inside)


def criterion(plan: Plan) -> Lines:
    """What the loss needs: an object, or a function."""
    made = {
        "ce": "nn.CrossEntropyLoss()",
        "smooth": "nn.CrossEntropyLoss(label_smoothing=0.1)",
        "weighted": f"nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, {CLASSES}))",
        "nll": "nn.NLLLoss()",
        "ignore": "nn.CrossEntropyLoss(ignore_index=-100)",
        "margin": "nn.MultiMarginLoss()",
        "bce-logits": "nn.BCEWithLogitsLoss()",
        "pos-weight": "nn.BCEWithLogitsLoss(pos_weight=torch.tensor(1.5))",
        "bce": "nn.BCELoss()",
        "mse": "nn.MSELoss()",
        "huber": "nn.HuberLoss()",
        "smooth-l1": "nn.SmoothL1Loss(beta=0.5)",
        "l1": "nn.L1Loss()",
        "gaussian": "nn.GaussianNLLLoss()",
        "flat": "nn.CrossEntropyLoss()",
        "transposed": "nn.CrossEntropyLoss()",
        "padded": "nn.CrossEntropyLoss(ignore_index=0)" if plan.mutation != "padding" else "nn.CrossEntropyLoss()",
    }.get(plan.loss)
    if plan.loss == "focal":
        inside = ["log_p = F.log_softmax(out, 1).gather(1, y[:, None])", "return -((1 - log_p.exp()) ** 2 * log_p).mean()"]
        return block("def criterion(out, y):", inside)
    return [f"criterion = {made}"] if made is not None else []


def loss(plan: Plan) -> str:
    """The loss of `out` and `y`."""
    if plan.mutation == "softmax-in-loop":
        return "criterion(F.softmax(out, dim=1), y)"
    if plan.mutation == "sigmoid-in-loop":
        return "criterion(torch.sigmoid(out), y)"
    soft = f"(0.9 * F.one_hot(y, {CLASSES}) + {0.1 / CLASSES})"
    written = {
        "nll": "criterion(out, y)" if plan.mutation == "nll-on-scores" else "criterion(F.log_softmax(out, 1), y)",
        "soft": f"F.cross_entropy(out, {soft})",
        "kl": f"F.kl_div(F.{'softmax' if plan.mutation == 'kl-on-p' else 'log_softmax'}(out, 1), {soft}, reduction='batchmean')",
        "bce": "criterion(torch.sigmoid(out), y)",
        "soft-margin": "F.soft_margin_loss(out, 2 * y - 1)",
        "gaussian": "criterion(out[:, 0], y, F.softplus(out[:, 1]) + 0.01)",
        "flat": f"criterion(out.reshape(-1, {WORDS}), y.reshape(-1))",
        "transposed": "criterion(out.transpose(1, 2), y)",
        "padded": f"criterion(out.reshape(-1, {WORDS}), y.reshape(-1))",
    }
    if plan.loss == "by-hand":
        return "((out - y) ** 2).mean()" if plan.head == "values" else "-F.log_softmax(out, 1).gather(1, y[:, None]).mean()"
    value = written.get(plan.loss, "criterion(out, y)")
    if plan.body == "vae":
        value += " - 0.005 * (1 + model.log_variance - model.middle ** 2 - model.log_variance.exp()).mean()"
    return value


def metric(plan: Plan) -> str:
    """A number of `out` and `y` in the evaluation."""
    if plan.mutation == "metric-broadcast":
        return "(out.argmax(1, keepdim=True) == y).float().mean().item()"
    return {
        "classes": "(out.argmax(1) == y).float().mean().item()",
        "binary": "((out > 0) == (y > 0.5)).float().mean().item()",
        "text": "(out.argmax(-1) == y).float().mean().item()",
        "values": "(out - y).abs().mean().item()" if plan.loss != "gaussian" else "(out[:, 0] - y).abs().mean().item()",
    }.get(plan.head, "(out - y).abs().mean().item()")
