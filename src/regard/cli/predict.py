"""`regard predict RUN [TEXT …] [--input FILE] [--output FILE]`: a line in, a line out, order and count kept."""

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from regard.cli.options import flag, taken
from regard.cli.words import no_more_options, parted, within
from regard.errors import RegardError

CHUNK = 1024
"""Lines that are decoded together."""

USAGE = """usage: regard predict RUN [TEXT …] [options] [-- TEXT …]

Answers the texts, or the lines of --input, or of the standard input. What stands behind -- is text, whatever it is.

  --input FILE         a line for each text
  --output FILE        instead of the standard output
  --beam N             hypotheses kept while decoding (1 is greedy); what the run was trained with unless given
  --length-penalty A   exponent of the length penalty of a beam
  --best N             that many answers for each text, best first; only with --json
  --sample             draw instead of search:
  --temperature T      below 1 sharper, above 1 flatter
  --top-k K            draw from the K most probable tokens
  --top-p P            draw from the most probable tokens whose share reaches P
  --seed S             fixes what is drawn
  --json               a line of JSON for each text: the answers with their log-probabilities"""

SAMPLING: dict[str, tuple[type[Any], dict[str, float]]] = {
    "--temperature": (float, {"above": 0}),
    "--top-k": (int, {"least": 0}),
    "--top-p": (float, {"above": 0, "most": 1}),
    "--seed": (int, {"least": 0, "most": 2**63 - 1}),
}
"""What is drawn with, of which kind, and in which range."""
OPTIONS = ("--input", "--output", "--beam", "--length-penalty", "--best", "--sample", *SAMPLING, "--json", "--help")


def run(words: list[str]) -> int:
    """Answers lines of the arguments, of a file, or of the standard input."""
    words, behind = parted(words)
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    source, words = taken(words, "--input")
    target, words = taken(words, "--output")
    as_json, words = flag(words, "--json")
    best, words = within(words, "--best", int, least=1)
    look_for, words = _search(words, best or 1)
    no_more_options("predict", words, OPTIONS)
    if not words:
        raise RegardError("predict: name a run folder: see --help")
    if best is not None and not as_json:
        raise RegardError("predict: --best N needs --json: a line of text holds one answer")
    folder, texts = words[0], [*words[1:], *behind]
    if texts and source:
        raise RegardError("predict: give text or --input, not both")
    from regard.run import load

    trained = load(folder)
    both = [path for path in (source, target) if path is not None and os.path.exists(path)]
    if len(both) == 2 and os.path.samefile(*both):
        raise RegardError(f"predict: --output {target} is the file of --input: it would be emptied before it is read")
    search = look_for(trained.task)
    cut = done = unfinished = 0
    with contextlib.ExitStack() as opened:
        # The input first: a mistake in its name must not cost a file that stands where the output goes.
        lines = map(os.fsencode, texts) if texts else iter(opened.enter_context(_open("--input", source, "rb")))
        out = opened.enter_context(_open("--output", target, "wb"))
        while chunk := [_text(line) for line in itertools.islice(lines, CHUNK)]:
            answers = trained.task.searched(trained.model, chunk, search(done))
            done += len(chunk)
            for line, several in zip(chunk, answers, strict=True):
                said = _json(trained.task, line, several) if as_json else trained.task.text(several[0])
                # An answer is one line, whatever the model wrote.
                out.write(said.replace("\r", " ").replace("\n", " ").encode() + b"\n")
            out.flush()
            cut += sum(trained.task.is_cut(line) for line in chunk)
            unfinished += sum(not several[0].finished for several in answers)
    if unfinished:
        said = "answers were cut before their end: training showed none as long (--task.longest-answer)"
        print(f"{unfinished} {said}", file=sys.stderr)  # noqa: T201
    if cut:
        longest = trained.task.options.longest
        print(f"{cut} lines were longer than {longest} tokens, and cut there to be read", file=sys.stderr)  # noqa: T201
    return 0


def _search(words: list[str], best: int) -> tuple[Callable[[Any], Callable[[int], Any]], list[str]]:
    """How to decode: a function of the task, which gives one of the lines that were answered before."""
    beam, words = within(words, "--beam", int, least=1)
    penalty, words = within(words, "--length-penalty", float)
    drawing, words = flag(words, "--sample")
    draws: dict[str, float] = {}
    for name, (kind, between) in SAMPLING.items():
        value, words = within(words, name, kind, **between)
        if value is not None:
            draws[name.removeprefix("--").replace("-", "_")] = value
    if draws and not drawing:
        raise RegardError(f"predict: {', '.join(draws)} is for drawing: add --sample")
    if drawing and (beam or penalty is not None or best > 1):
        raise RegardError("predict: --sample draws one answer: leave out --beam, --length-penalty and --best")
    if beam is not None and beam < best:
        raise RegardError(f"predict: --beam {beam} keeps fewer hypotheses than --best {best} asks for")

    def made(task: Any) -> Callable[[int], Any]:
        if drawing:
            return lambda done: task.sampling(first=done, **draws)
        size = max(beam or task.options.beam, best)
        alpha = task.options.length_penalty if penalty is None else penalty
        return lambda done: task.with_options(beam=size, length_penalty=alpha).beaming(best)

    return made, words


def _json(task: Any, line: str, several: list[Any]) -> str:
    answers = [
        {
            "text": task.text(each),
            "log_probability": each.log_probability,
            "score": each.score,
            "finished": each.finished,
        }
        for each in several
    ]
    return json.dumps({"source": line, "answers": answers}, ensure_ascii=False)


def _open(option: str, path: str | None, mode: str) -> IO[bytes]:
    """A file, or the standard stream of that direction."""
    try:
        if path is not None:
            return Path(path).open(mode)
        stream = sys.stdin if mode == "rb" else sys.stdout
        if stream is None:
            raise RegardError(f"predict: the standard {'input' if mode == 'rb' else 'output'} is closed: give {option}")
        return os.fdopen(os.dup(stream.fileno()), mode)
    except (OSError, ValueError) as fact:
        raise RegardError(f"predict: {option} {path or ''}: {getattr(fact, 'strerror', None) or fact}") from None


def _text(line: bytes) -> str:
    """A line, which ended at a newline and nowhere else; what is not UTF-8 becomes the replacement character."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors="replace")
