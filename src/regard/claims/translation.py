"""The claims that are about translation: dates, reversal, pronunciation."""

from pathlib import Path
from typing import Any

from regard.claims.claim import Line, Measured, Plot, Tell
from regard.job import Job, run_job
from regard.measure.report import Report
from regard.models.catalogue import entry
from regard.run import evaluated, load
from regard.tasks.catalogue import task_entry
from regard.tasks.translate import Options
from regard.training.settings import Settings
from regard.training.store import Store


def trained(folder: Path, model: str, job: dict[str, Any], tell: Tell) -> float:
    """Trains a translator, or goes on where it stopped; the seconds that its steps took.

    Raises:
        KeyboardInterrupt: if it was stopped on request.
    """
    what, chosen = task_entry("translate"), entry(model)
    config = job.pop("model", None) or chosen.preset("small")
    begun = (folder / "state").is_dir() and Store(folder).load_state() is not None
    made: Job[Any, Any] = Job(model=config, out=str(folder), resume=begun, **job)
    outcome = run_job(what, chosen, made, command=f"regard reproduce ({folder.name})", say=tell.say, report=tell.report)
    if outcome.stopped:
        raise KeyboardInterrupt
    return outcome.seconds


def dates(seed: int, folder: Path, tell: Tell) -> Measured:
    """The demo's training, on the whole test split."""
    settings = Settings(tokens=6000, rate=4e-3, validate=500, save=250)
    seconds = trained(folder, "rnnsearch", {"steps": 500, "seed": seed, "task": Options(), "train": settings}, tell)
    found = evaluated(load(folder), text_scores=False)
    return Measured({"exact": found.errors.exact_match, "seconds of training": seconds})


def reversal(seed: int, folder: Path, tell: Tell) -> Measured:
    """Both models on the same lines, by length."""
    numbers: dict[str, float] = {}
    lines = []
    for model in ("rnnsearch", "seq2seq"):
        settings = Settings(tokens=4096, rate=2e-3, validate=1000, save=500)
        job = {"data": "reversal", "steps": 3000, "seed": seed, "task": Options(), "train": settings}
        numbers[f"{model} seconds of training"] = trained(folder / model, model, job, tell)
        found = evaluated(load(folder / model), text_scores=False, edges=(1, 5, 9, 13, 17))
        numbers[f"{model} exact"] = found.errors.exact_match
        numbers |= {f"{model} exact at {name}": value for name, value in _by_length(found)}
        lines.append(Line(model, [(_middle(name), value) for name, value in _by_length(found)]))
    short = (numbers["seq2seq exact at 1-4"] + numbers["seq2seq exact at 5-8"]) / 2
    numbers["seq2seq fall from 1-8 to 17-20"] = short - numbers["seq2seq exact at 17-20"]
    return Measured(numbers, Plot("symbols of the line", "lines turned round exactly", lines))


def pronunciation(seed: int, folder: Path, tell: Tell) -> Measured:
    """Words of the test split, each with every pronunciation that the dictionary lists for it."""
    from regard.models.rnnsearch import Config

    config = Config(width=320, embedding=128, readout=160, alignment=128, dropout=0.3)
    task = Options(target_tokens="words", decoded=1000, beam=1)
    settings = Settings(
        tokens=8000, rate=2e-3, warmup=200, smoothing=0.1, validate=1000, save=250, average=0.998, precision="bfloat16"
    )
    job = {"data": "cmudict:nostress", "epochs": 18, "seed": seed, "task": task, "train": settings, "model": config}
    seconds = trained(folder, "rnnsearch", job, tell)
    run = load(folder)
    greedy = evaluated(run, text_scores=False)
    wide = evaluated(run.with_options(beam=5), text_scores=False)
    return Measured(
        {
            "phoneme errors": wide.errors.token_rate,
            "word errors": wide.errors.sequence_rate,
            "phoneme errors, greedy": greedy.errors.token_rate,
            "word errors, greedy": greedy.errors.sequence_rate,
            "seconds of training": seconds,
        },
        Plot("letters of the word", "phoneme errors", [Line("beam 5", _points(wide)), Line("greedy", _points(greedy))]),
    )


def _points(found: Report) -> list[tuple[float, float]]:
    return [(_middle(b.name), b.result.token_rate) for b in found.lengths if b.result is not None and b.count >= 20]


def _by_length(found: Report) -> list[tuple[str, float]]:
    named = [(bucket.name.replace("17+", "17-20"), bucket.result) for bucket in found.lengths]
    return [(name, result.exact_match) for name, result in named if result is not None]


def _middle(name: str) -> float:
    ends = [float(part) for part in name.rstrip("+").split("-")]
    return sum(ends) / len(ends)
