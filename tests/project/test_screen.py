"""What the demo writes: lines in a log, one line rewritten in place on a terminal."""

import io

from project.demo.screen import Screen


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def told(out: io.StringIO) -> str:
    """Let a screen tell a small story; return what it wrote."""
    screen = Screen(out)
    screen.progress("0 of 2")
    screen.progress("0 of 2")
    screen.say("first")
    screen.progress("1 of 2")
    screen.end_progress()
    screen.say("end")
    return out.getvalue()


def test_a_log_gets_plain_lines() -> None:
    assert told(io.StringIO()) == "0 of 2\nfirst\n1 of 2\nend\n"


def test_a_terminal_gets_one_line_in_place_below_the_news() -> None:
    clear = "\r\033[2K"
    assert told(Terminal()) == f"{clear}0 of 2{clear}first\n0 of 2{clear}1 of 2\nend\n"


def test_a_terminal_that_knows_no_sign_gets_a_question_mark() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    Screen(out).say("✓ done")
    assert raw.getvalue() == b"? done\n"
