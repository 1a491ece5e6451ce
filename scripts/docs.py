"""Checks the documentation: every relative link leads to a file and, where it names one, a heading."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
MAKE = re.compile(r"`make ([a-z]+)")
EXTERNAL = ("http:", "https:", "mailto:")


def anchor(heading: str) -> str:
    """Return the fragment that GitHub gives a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the fragments of a page; repeated headings get -1, -2 and so on."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in HEADING.findall(text):
        name, number = anchor(heading), 0
        while (candidate := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(candidate)
    return found


def links(page: Path) -> Iterator[str]:
    """Yield the link targets of a page, code left out."""
    for match in LINK.finditer(CODE.sub("", page.read_text())):
        yield match[1] or match[2]


def fault(page: Path, target: str) -> str | None:
    """Return what is wrong with one link, None when nothing is."""
    if target.startswith(EXTERNAL):
        return None
    name, _, fragment = target.partition("#")
    goal = (page.parent / name).resolve() if name else page
    if not goal.exists():
        return f"{target}: no such file"
    if fragment and goal.suffix == ".md" and fragment not in anchors(goal):
        return f"{target}: no such heading"
    return None


def unknown_targets(page: Path, known: set[str]) -> list[str]:
    """Return the make targets a page names that the Makefile does not have."""
    return [f"make {name}: no such target" for name in MAKE.findall(page.read_text()) if name not in known]


def pages() -> list[Path]:
    """Return every Markdown page of the repository."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def main() -> int:
    """Print every fault; return the exit code."""
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    faults = []
    for page in pages():
        found = [problem for target in links(page) if (problem := fault(page, target))]
        faults += [f"{page.relative_to(ROOT)}: {p}" for p in [*found, *unknown_targets(page, known)]]
    print(*faults, f"docs: {len(pages())} pages, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
