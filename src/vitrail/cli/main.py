"""The command line. Commands are files beside this one, imported when they run; torch only when one needs it."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnknownCommandError

import vitrail
from vitrail.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_WRONG_USE, VitrailError, did_you_mean, one_line

COMMANDS = {
    "demo": "The main job with nothing of your own.",
    "models": "The models that can be built by name.",
    "inspect": "What is in a model or weight file.",
    "convert": "Weights from one layout to another, proven equal.",
    "walk": "One picture through the model, step by step, with every number.",
    "train": "From pictures to a classifier, in the minutes you have.",
    "predict": "What is on pictures, any number of them.",
    "evaluate": "How good a model is on labelled pictures.",
    "doctor": "What is wrong with a set of pictures, and what to do about it.",
    "data": "Data sets that can be had by name.",
    "pretrain": "From pictures without labels to an encoder to train from.",
    "probe": "How good a model's features are: few-shot, linear and nearest-neighbour classifiers.",
    "explain": "Which parts of pictures an answer comes from, and whether that can be trusted.",
    "export": "A model for another engine, proven equal.",
    "optimize": "A smaller or faster model, measured on this machine.",
    "serve": "A model behind HTTP, with a page to drop pictures on.",
    "lab": "The paper's claims, one by one, at a scale that a small machine can run.",
    "bench": "Our speed beside timm, transformers and vit-pytorch.",
}

_SETTING = re.compile(r"--[a-z_-]+(\.[a-z_-]+)+")

EPILOGUE = "With `--debug`, an error comes with its traceback. Exit codes: 0 done, 1 a check failed, 2 wrong use, "
EPILOGUE += "3 bad input or file, 130 interrupted."


def build_app(chosen: str = "") -> App:
    """All commands. One that is chosen speaks for itself; the others are listed without being imported."""
    app = App(
        name="vitrail",
        help="From a folder of pictures to a Vision Transformer you can trust, explain and ship.",
        help_epilogue=EPILOGUE,
        version=vitrail.__version__,
    )
    for name, summary in COMMANDS.items():
        spoken = {} if name == chosen else {"help": summary}
        app.command(f"vitrail.cli.{name}:command", name=name, **spoken)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; whatever goes wrong is one line on stderr and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows ? for ×, rather than nothing at all
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = _settings_as_words([word for word in words if word != "--debug"])
    try:
        app = build_app(words[0] if words else "")
        result = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        return result if isinstance(result, int) else EXIT_OK
    except (VitrailError, CycloptsError, KeyboardInterrupt, BrokenPipeError) as error:
        if debug:
            raise
        return _explain(error)


def _settings_as_words(words: list[str]) -> list[str]:
    """`--optim.lr 0.01` and `--optim.lr=0.01` as `optim.lr=0.01`, which commands take as they come."""
    made: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if not _SETTING.fullmatch(name):
            made.append(word)
        else:
            made.append(f"{name[2:]}={value if equals else next(left, '')}")
    return made


def _explain(error: BaseException) -> int:
    if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return EXIT_OK
    if isinstance(error, KeyboardInterrupt):
        print("vitrail: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    line = str(error) if isinstance(error, VitrailError) else _usage_error(error)
    print("vitrail: " + one_line(line), file=sys.stderr)
    return error.exit_code if isinstance(error, VitrailError) else EXIT_WRONG_USE


def _usage_error(error: BaseException) -> str:
    """What cyclopts says, in one line, with the nearest command or the way to the help."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        word = error.unused_tokens[0]
        return f"there is no command {word!r}; {did_you_mean(word, COMMANDS)}"
    said = " ".join(str(error).split())
    return said if "Did you mean" in said else f"{said} See `vitrail --help`."


if __name__ == "__main__":
    sys.exit(main())
