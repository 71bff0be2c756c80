"""`regard reproduce [CLAIM …] [--out FOLDER] [--results FOLDER]`: run the papers' claims on this machine."""

import shlex
from pathlib import Path

from regard.claims.catalogue import CLAIMS, claim
from regard.cli.options import taken
from regard.cli.words import no_more_options

USAGE = """usage: regard reproduce [CLAIM …] [--out FOLDER] [--results FOLDER]

Without a claim it lists them. What a claim trains lies below --out (runs/claims): stop it at any time, and the same
command goes on. Its result, a JSON file with a plot, goes to --results (beside what was trained, unless given)."""


def run(words: list[str]) -> int:
    """Runs claims one after the other; the exit code is 0 whether or not a goal is reached: the result says it."""
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    out, names = taken(words, "--out", "runs/claims")
    results, names = taken(names, "--results", str(out))
    no_more_options("reproduce", names, ("--out", "--results", "--help"))
    if not names:
        for each in CLAIMS:
            print(f"{each.name:16} {each.says}\n{'':16} {each.source}; about {each.minutes:g} min")  # noqa: T201
        return 0
    chosen = [claim(name) for name in names]
    from regard.claims.claim import Tell
    from regard.claims.reproduce import reproduce
    from regard.cli.bar import Bar

    bar = Bar()
    for each in chosen:
        with bar:
            tell = Tell(bar.say, bar.report)
            result = reproduce(
                each, Path(str(out)), Path(str(results)), tell, command="regard reproduce " + shlex.join([each.name])
            )
        print(f"{each.name}: {each.says}")  # noqa: T201
        for goal in result["goals"]:
            verdict = "reached" if goal["reached"] else "NOT reached"
            print(  # noqa: T201
                f"  {goal['measure']}: {goal['median']:.4g}, goal {goal['goal']}: {verdict}, "
                f"by {goal['seeds that reach it']} of {len(result['seeds'])} seeds"
            )
        print(f"  {Path(str(results)) / each.name}.json, {result['minutes']:g} minutes of training")  # noqa: T201
    return 0
