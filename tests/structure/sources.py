"""What the structure tests look at: the repository's Python files and their functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE_FOLDERS = ("webhooks_app", "project", "scripts", "bench")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """Return the Python files of some top folders, migrations left out."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if not {"migrations", "node_modules"} & set(path.parts))


def name(path: Path) -> str:
    """Return a file's path inside the repository."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[Function]:
    """Yield every function and method of a file."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Return the lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def positional(function: Function) -> int:
    """Return how many parameters may be given by position, self and cls left out."""
    parameters = [each.arg for each in [*function.args.posonlyargs, *function.args.args]]
    return len([each for each in parameters if each not in {"self", "cls"}])
