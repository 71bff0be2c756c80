"""The command line: one file a subcommand. Nothing here imports PyTorch before a command needs it."""

import contextlib
import difflib
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence

from regard.errors import FULL, NoSpace, OutOfMemory, RegardError

COMMANDS = {
    "demo": "train the small embedded translator, and watch where it looks",
    "ls": "what there is: models, tasks, data, claims",
    "train": "train a model on your data, into a run folder",
    "eval": "measure a run",
    "predict": "a line in, a line out",
    "look": "draw where a run looks",
    "reproduce": "run the papers' claims on this machine",
    "bench": "ours beside the peers, as ratios (in a clone of the source)",
    "cite": "whom to cite for a model or a run",
}

USAGE = """usage: regard COMMAND …

{commands}

regard COMMAND --help says more of one. First: regard demo"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, or that of the error (see `regard.errors`)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # arrows and letters that its encoding does not have
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE.format(commands="\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items())))  # noqa: T201
        return 0
    if words[0] == "--version":
        from regard import __version__

        print(__version__)  # noqa: T201
        return 0
    try:
        code = command(words[0])(words[1:])
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except RegardError as error:
        code = failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = failed("interrupted", 130)
    except BrokenPipeError:  # whoever read our output has gone
        code = 141
    except (OSError, MemoryError, RuntimeError) as error:
        known = _of_the_machine(error)
        if known is None:
            raise
        code = failed(str(known), known.exit_code)
    finally:
        _let_go()
    return code


def _of_the_machine(error: Exception) -> RegardError | None:
    """A full disk or memory that met the command outside of what explains it; None if it is neither."""
    if isinstance(error, OSError):
        return NoSpace(f"{error.strerror}: make room where the output goes") if error.errno in FULL else None
    from regard.training.memory import ran_out

    return OutOfMemory("out of memory: give shorter lines, or fewer at a time") if ran_out(error) else None


def _let_go() -> None:
    """Points output that cannot be written at nothing: Python would complain of it once more when it ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def command(name: str) -> Callable[[list[str]], int]:
    """The function of a subcommand.

    Raises:
        RegardError: if there is none of that name; the nearest is suggested.
    """
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}? " if close else ""
        raise RegardError(f"there is no command {name!r}: {hint}the commands are {', '.join(COMMANDS)}")
    run: Callable[[list[str]], int] = importlib.import_module(f"regard.cli.{name}").run
    return run


def failed(message: str, code: int) -> int:
    """Says what went wrong, on the error stream, and returns the exit code."""
    with contextlib.suppress(OSError):  # nobody may be listening
        print(f"regard: {printable(message)}", file=sys.stderr)  # noqa: T201
    return code


def printable(text: str) -> str:
    """Text from data, safe for a terminal: control and direction characters become their escapes."""
    return "".join(
        c if c in "\n\t" or (c.isprintable() and not _turns(c)) else c.encode("unicode_escape").decode() for c in text
    )


def _turns(character: str) -> bool:
    """Whether a character changes the direction of what follows, and so could hide it."""
    return "‪" <= character <= "‮" or "⁦" <= character <= "⁩"
