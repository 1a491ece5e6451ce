"""Budgets that keep the code readable in one sitting."""

import ast

import pytest

from tests.structure import sources

MAX_SOURCE_LINES = 300
MAX_TEST_LINES = 500
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL = 4
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" * 3)
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".html", ".css", ".js", ".mjs", ".txt", ""}
PARTS = ("webhooks_app", "project", "scripts", "bench", "tests", "docs", ".ci", "Makefile", "README.md")


def _too_long(folders: tuple[str, ...], limit: int) -> list[str]:
    lengths = {path: len(path.read_text().splitlines()) for path in sources.python_files(*folders)}
    return [f"{sources.name(path)}: {count} lines" for path, count in lengths.items() if count > limit]


def test_source_files_are_short():
    assert _too_long(sources.SOURCE_FOLDERS, MAX_SOURCE_LINES) == []


def test_test_files_are_short():
    assert _too_long(("tests",), MAX_TEST_LINES) == []


def test_functions_are_short():
    long = [
        f"{sources.name(path)}:{function.lineno} {function.name}: {sources.length(function)} lines"
        for path in sources.python_files(*sources.SOURCE_FOLDERS)
        for function in sources.functions(path)
        if sources.length(function) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_few_parameters_are_positional():
    many = [
        f"{sources.name(path)}:{function.lineno} {function.name}: {sources.positional(function)}"
        for path in sources.python_files(*sources.SOURCE_FOLDERS)
        for function in sources.functions(path)
        if sources.positional(function) > MAX_POSITIONAL
    ]
    assert many == []


def test_nothing_is_marked_unfinished():
    roots = [sources.ROOT / part for part in PARTS]
    files = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*"))]
    texts = [
        path
        for path in files
        if path.is_file() and path.suffix in TEXT and not {"node_modules", "__pycache__"} & set(path.parts)
    ]
    found = [
        f"{sources.name(path)}: {word}"
        for path in texts
        for word in UNFINISHED
        if word in path.read_text(errors="replace")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "lines", "parameters"),
    [
        (
            'def f(self, a, /, b, *, c):\n    """Doc.\n\n    More.\n    """\n    return (\n        a\n    )',
            3,
            2,
        ),
        ("async def f():\n    return 1", 1, 0),
        ('def f(a, b, c, d, e):\n    """Doc."""', 0, 5),
    ],
)
def test_measures(code: str, lines: int, parameters: int):
    function = ast.parse(code).body[0]
    assert isinstance(function, sources.Function)
    assert (sources.length(function), sources.positional(function)) == (lines, parameters)
