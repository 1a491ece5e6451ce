"""Reads forms as a browser does, so that tests send what staff would send."""

from html.parser import HTMLParser


class FormReader(HTMLParser):
    """Collects the values of the inputs, text areas and selects of a page's change form."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, str | None] = {}
        self._area: str | None = None
        self._select: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note inputs, open text areas and selects, take chosen options."""
        found = dict(attrs)
        name = found.get("name")
        if tag == "input" and name:
            self._input(name, found)
        elif tag == "textarea" and name:
            self._area, self._text = name, []
        elif tag == "select" and name:
            self._select = name
        elif tag == "option" and self._select and ("selected" in found or self._select not in self.values):
            # Without a chosen option, a browser chooses the first.
            self.values[self._select] = found.get("value") or ""

    def handle_data(self, data: str) -> None:
        """Collect the text of an open text area."""
        if self._area:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Close text areas and selects."""
        if tag == "textarea" and self._area:
            # A browser drops the first newline of a text area.
            self.values[self._area] = "".join(self._text).removeprefix("\n")
            self._area = None
        elif tag == "select":
            self._select = None

    def _input(self, name: str, found: dict[str, str | None]) -> None:
        kind = found.get("type", "text")
        if kind in {"submit", "button"}:
            return
        if kind in {"checkbox", "radio"} and "checked" not in found:
            return
        self.values[name] = found.get("value") or ("on" if kind == "checkbox" else "")
