"""Dropout that is written by hand, by what the source says: a random mask, and a division by the share that is kept."""

import ast
import linecache

UNIFORM = ("rand", "rand_like")
COINS = ("bernoulli", "bernoulli_")


def drops_by_hand(site: str) -> bool:
    """Whether the function around a line multiplies by a random mask and divides by one less its probability, or by that, and
    asks nowhere whether it trains."""
    file, _, line = site.rpartition(":")
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= int(line) <= (node.end_lineno or 0)
    ]  # fmt: skip
    if not around:
        return False
    scope = max(around, key=lambda node: node.lineno)
    if any("train" in name or "eval" in name for name in _names(scope)):
        return False
    limits = [limit for node in ast.walk(scope) for limit in _limits(node)]
    divided = [node.right for node in ast.walk(scope) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    return any(_is_kept(each, limit) for each in divided for limit in limits)


def _names(scope: ast.AST) -> set[str]:
    """Every name in a function, in small letters."""
    attributes = {node.attr.lower() for node in ast.walk(scope) if isinstance(node, ast.Attribute)}
    return attributes | {node.id.lower() for node in ast.walk(scope) if isinstance(node, ast.Name)}


def _limits(node: ast.AST) -> list[str]:
    """What uniform numbers are compared with, or what coins are thrown by."""
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        sides = (node.left, node.comparators[0])
        drawn = [side for side in sides if isinstance(side, ast.Call) and _called(side) in UNIFORM]
        return [ast.unparse(side) for side in sides if drawn and side is not drawn[0]]
    if isinstance(node, ast.Call) and _called(node) in COINS:
        return [
            ast.unparse(part)
            for given in node.args
            for part in ast.walk(given)
            if isinstance(part, ast.BinOp | ast.Attribute | ast.Name)
        ]
    return []


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_kept(divisor: ast.expr, limit: str) -> bool:
    """Whether something is divided by the limit, or by 1 less it."""
    return ast.unparse(divisor) in (limit, f"1 - {limit}", f"1.0 - {limit}")


def has_training_flag(site: str) -> bool:
    """Whether a dropout of that line is given `self.is_training` and the like for its mode: a flag that eval() does not know.

    Not `self.training`, nor a flag whose name speaks of something else, as Monte Carlo does.
    """
    file, _, line = site.rpartition(":")
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    found = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "drop" in _called(node) and node.lineno <= int(line) <= (node.end_lineno or 0)
    ]  # fmt: skip
    given = [_training_given(node) for node in found]
    return bool(given) and all(each is not None and _is_own_flag(each) for each in given)


def _training_given(node: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in node.keywords if keyword.arg == "training"]
    return named[0] if named else node.args[2] if len(node.args) > 2 else None


def _is_own_flag(given: ast.expr) -> bool:
    if not isinstance(given, ast.Attribute) or not isinstance(given.value, ast.Name) or given.value.id != "self":
        return False
    return "train" in given.attr.lower() and given.attr != "training"
