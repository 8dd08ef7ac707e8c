"""Whether a number that a line of the user's source takes from a tensor is a mean over a batch, by what the source says."""

import ast
import linecache
from collections.abc import Iterator

PASSING = ("item", "detach", "cpu", "float", "double", "numpy")
COUNTS = ("len", "numel", "size")


def takes_mean(site: str) -> bool:
    """Whether every `.item()` and `float(…)` of a line is that of a mean over everything; False where it cannot be told."""
    file, _, line = site.rpartition(":")
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    taken = [node for node in _taken(tree) if node.lineno <= int(line) <= (node.end_lineno or 0)]
    return bool(taken) and all(_is_mean(tree, node, int(line), 6) for node in taken)


def _taken(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute) and node.func.attr == "item"
        if method or (isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1):
            yield node


def _is_mean(tree: ast.AST, node: ast.expr, line: int, depth: int) -> bool:
    if depth <= 0:
        return False
    if isinstance(node, ast.Call):
        return _is_mean_call(tree, node, line, depth)
    if isinstance(node, ast.UnaryOp):
        return _is_mean(tree, node.operand, line, depth)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div) and _is_named(node.left, "sum"):
            return _is_count(node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            return all(
                isinstance(side, ast.Constant) or _is_mean(tree, side, line, depth - 1) for side in (node.left, node.right)
            )
        return isinstance(node.left, ast.Constant) and _is_mean(tree, node.right, line, depth - 1)
    if isinstance(node, ast.Name):
        found = list(_assigned(tree, node.id, line))
        return bool(found) and all(_is_mean(tree, each, each.lineno, depth - 1) for each in found[-1:])
    return False


def _is_mean_call(tree: ast.AST, node: ast.Call, line: int, depth: int) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "mean":  # x.mean(), torch.mean(x): over everything
        function = (
            isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        )
        return not node.keywords and len(node.args) == (1 if function else 0)
    if isinstance(node.func, ast.Attribute) and name in PASSING and not node.args:
        return _is_mean(tree, node.func.value, line, depth)
    if isinstance(node.func, ast.Name) and name == "float" and len(node.args) == 1:
        return _is_mean(tree, node.args[0], line, depth)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name]
    if len(functions) != 1:
        return False
    returned = [each for each in ast.walk(functions[0]) if isinstance(each, ast.Return)]
    return bool(returned) and all(
        each.value is not None and _is_mean(tree, each.value, each.lineno, depth - 1) for each in returned
    )


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _is_count(node: ast.expr) -> bool:
    """`len(x)`, `x.numel()`, `x.size(0)`, `x.shape[0]`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return name in COUNTS or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len")


def _assigned(tree: ast.AST, name: str, line: int) -> Iterator[ast.expr]:
    """What a name was last set to in the same function, before that line."""
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    scope = max(around, key=lambda node: node.lineno, default=tree)
    found = [
        node for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and node.lineno <= line and any(ast.unparse(target) == name for target in node.targets)
    ]  # fmt: skip
    yield from (node.value for node in sorted(found, key=lambda node: node.lineno))


def is_plain_meter(tree: ast.AST, name: str) -> bool:
    """Whether a class of that file averages the numbers it is given, each counting the same: it adds them up, or keeps them in
    lists, and divides by how many there were. Nothing is multiplied in it, and it counts in ones."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if len(classes) != 1 or any(isinstance(node, ast.Mult) for node in ast.walk(classes[0])):
        return False
    nodes = list(ast.walk(classes[0]))
    added = [node for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    ones = {ast.unparse(node.target) for node in added if isinstance(node.value, ast.Constant) and node.value.value == 1}
    divided = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    return any(ast.unparse(node.right) in ones or _is_length_of_sum(node) for node in divided)


def _is_length_of_sum(node: ast.BinOp) -> bool:
    """`sum(v) / len(v)`"""
    sides = (node.left, node.right)
    calls = [each for each in sides if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and len(each.args) == 1]
    if len(calls) != 2:
        return False
    names = tuple(each.func.id for each in calls)  # type: ignore[attr-defined]
    return names == ("sum", "len") and ast.unparse(calls[0].args[0]) == ast.unparse(calls[1].args[0])
