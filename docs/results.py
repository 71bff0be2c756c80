"""Writes docs/results.md from the results that `regard reproduce` wrote into docs/results: `make docs`."""

import json
from pathlib import Path

from regard.claims.catalogue import CLAIMS
from regard.claims.claim import Claim

HERE = Path(__file__).parent
PAGE, RESULTS, NOTES = HERE / "results.md", HERE / "results", HERE / "results" / "notes"

HEAD = """# Results

What the papers claim, measured here. Each table is written by `regard reproduce NAME --results docs/results`, the page
from them by `make docs`; nothing on it is typed. The **median** of the seeds is held against each goal. A goal that is
not reached stays as it is, with what was tried beside it.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(claim) for claim in CLAIMS)])


def section(claim: Claim) -> str:
    """One claim: what it says, what came out, or the command to find out."""
    lines = [f"## {claim.name}\n", f"{claim.says[0].upper()}{claim.says[1:]}.\n", f"Source: {claim.source}.\n"]
    path = RESULTS / f"{claim.name}.json"
    if not path.exists():
        lines.append(
            f"Not measured yet: `regard reproduce {claim.name}`, about {claim.minutes:g} minutes on two cores.\n"
        )
        return "\n".join(lines)
    found = json.loads(path.read_text())
    count = len(found["seeds"])
    lines += [
        f"| measure | goal | median | least | most | seeds that reach it, of {count} |",
        "|---|---|---|---|---|---|",
    ]
    for goal in found["goals"]:
        spread = found["measured"][goal["measure"]]
        verdict = "" if goal["reached"] else " **not reached**"
        lines.append(
            f"| {goal['measure']} | {goal['goal']} | {spread['median']:.4g}{verdict} | {spread['least']:.4g} "
            f"| {spread['most']:.4g} | {goal['seeds that reach it']} |"
        )
    aimed = {goal["measure"] for goal in found["goals"]}
    others = [(name, spread) for name, spread in found["measured"].items() if name not in aimed]
    if others:
        lines += ["\n| beside it | median | least | most |", "|---|---|---|---|"]
        lines += [f"| {name} | {s['median']:.4g} | {s['least']:.4g} | {s['most']:.4g} |" for name, s in others]
    if found["plot"]:
        lines.append(f"\n![{claim.says}](results/{claim.name}.svg)")
    machine, versions = found["machine"], found["versions"]
    lines.append(
        f"\n`{found['command']}`: {found['minutes']:g} minutes of training in all, seeds "
        f"{', '.join(map(str, found['seeds']))}; {machine['threads']} thread{'s' * (machine['threads'] > 1)} on "
        f"{machine['processor']}, "
        f"regard {versions['regard']}, torch {versions['torch']}, {found['date']}.\n"
    )
    note = NOTES / f"{claim.name}.md"
    if note.exists():
        lines.append(note.read_text())
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE.name}")
