"""What can go wrong, said in one line: where, what, and how to fix it.

Every error a user can cause is a `VitrailError`. The command line prints it as one line and exits with its
`exit_code`; a traceback is shown only with `--debug`. `assert` is kept for our own invariants.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK, EXIT_CHECK_FAILED, EXIT_WRONG_USE, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


class VitrailError(Exception):
    """`where: what; fix`: the place, the fault and the remedy, in one line."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, what: str, *, where: object = None, fix: str | None = None) -> None:
        self.what, self.where, self.fix = what, where, fix
        line = (f"{where}: " if where is not None else "") + what + (f"; {fix}" if fix else "")
        super().__init__(one_line(line))


class CheckFailed(VitrailError):
    """A check that was asked for did not hold (parity, a golden pair, a certificate)."""

    exit_code = EXIT_CHECK_FAILED


class ConfigError(VitrailError, ValueError):
    """A value that cannot work: an impossible size, an unknown name."""

    exit_code = EXIT_WRONG_USE


class MissingExtra(VitrailError, ImportError):
    """An optional dependency is not installed; the remedy names the extra."""

    exit_code = EXIT_WRONG_USE

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}", fix=f'pip install "vitrail[{extra}]"')


class FileError(VitrailError):
    """A file or folder that is missing, unreadable, damaged or of the wrong kind."""


class ImageError(FileError):
    """A picture that cannot be opened."""


class WeightsError(FileError):
    """Weights that do not fit: missing, unexpected or misshapen tensors, an unknown layout."""


class UnsafeFileError(WeightsError):
    """A model file that could run code, or lies about its contents, and was refused unread."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known names as a remedy: `did you mean 'S/16'?`, or the whole list when it is short."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(name) for name in near) + "?"
    return "choose from " + ", ".join(names) if len(names) <= 12 else ""


def one_line(text: str) -> str:
    """Control characters escaped, so that no file name can forge a second line or move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
