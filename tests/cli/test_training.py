"""`regard train` and `regard.train` as a user meets them: what is refused and when, how a run goes on, what is told."""

import contextlib
import json
import os
import re
import shutil
import signal
import time

import pytest
import torch

import regard
from regard.cli import main
from regard.cli.train import USAGE
from regard.errors import RegardError
from regard.job import beginning
from regard.models.rnnsearch import Config
from regard.tasks.translate import Options, Translate
from regard.training.settings import Duration, Settings
from regard.training.store import Store
from tests.training.crashing import forked

pytestmark = pytest.mark.usefixtures("unchecked")

TINY = ["--model.width", "7", "--model.embedding", "5", "--model.readout", "5", "--model.alignment", "3"]
CONFIG = Config(width=7, embedding=5, readout=5, alignment=3)
OFTEN = ["--train.validate", "3", "--train.save", "2"]
LONG = ["--steps", "1000000", "--train.validate", "250", "--train.save", "1000000"]


@pytest.fixture
def pairs(memory):
    return written(memory / "pairs.tsv", range(90))


def written(path, numbers):
    path.write_text("".join(f"{n:03}\t{n:03}\n" for n in numbers))
    return path


def train(data, run, *more):
    return ["train", "translate", "--data", str(data), "--out", str(run), *TINY, *more]


def resume(run, *more):
    return ["train", "--resume", "--out", str(run), *more]


def state(run):
    return Store(run).load_state()


def stopped(words, step, number=signal.SIGINT):
    """Runs a command that gets a signal at a step; its exit code."""

    def child():
        torch.set_num_threads(1)
        from regard.cli.bar import Bar

        told = Bar.report

        def report(self, progress):
            told(self, progress)
            if progress.step == step:
                os.kill(os.getpid(), number)

        Bar.report = report
        os._exit(main(words))

    return os.waitstatus_to_exitcode(os.waitpid(forked(child), 0)[1])


# How long: what is typed anew takes the place of what was typed before.


@pytest.mark.parametrize(
    ("first", "then", "steps"),
    [
        (["--minutes", "10"], ["--steps", "5"], 5),
        (["--epochs", "7"], ["--steps", "5"], 5),
        (["--steps", "1000000"], ["--epochs", "2"], 2),
        (["--steps", "1000000"], ["--steps", "6"], 6),
        ([], ["--steps", "5"], 5),
    ],
)
def test_how_long_is_said_anew(pairs, memory, first, then, steps):
    assert stopped(train(pairs, memory / "run", *first, "--train.tokens", "9999"), 1) == 130
    assert main(resume(memory / "run", *then)) == 0
    assert state(memory / "run").step == steps
    assert state(memory / "run").record["options"][then[0].removeprefix("--")] == int(then[1])
    assert main(resume(memory / "run")) == 0, "and it is what holds from then on"
    assert state(memory / "run").step == steps


def test_more_minutes_are_more_steps(pairs, memory):
    run = memory / "run"
    assert main(train(pairs, run, "--minutes", "0.002")) == 0
    steps = state(run).step
    assert main(resume(run)) == 0
    assert state(run).step == steps, "the same minutes are the same steps"
    assert main(resume(run, "--minutes", "0.004")) == 0
    assert state(run).step == 2 * steps


def test_minutes_after_steps_go_by_the_speed_of_the_steps(pairs, memory, capfd):
    run = memory / "run"
    assert main(train(pairs, run, "--steps", "20")) == 0
    pace = state(run).record["seconds"] / 20
    assert main(resume(run, "--minutes", str(30.5 * pace / 60))) == 0
    assert state(run).step == 30


def test_a_run_that_is_done_says_so(pairs, memory, capfd):
    assert main(train(pairs, memory / "run", "--steps", "3")) == 0
    capfd.readouterr()
    assert main(resume(memory / "run")) == 0
    assert "step 3 is reached already, and --steps 3 ends at step 3: give more to go on" in capfd.readouterr().err


def test_patience_is_told_with_its_remedy(pairs, memory, capfd):
    run = memory / "run"
    flat = ["--train.rate", "1e-30", "--train.warmup", "0", "--train.shape", "constant"]
    words = train(pairs, run, "--minutes", "100", "--train.patience", "2", "--train.validate", "20", *flat)
    told = (
        "ended at step 60 by --train.patience 2: none of the last 2 validations was better than that of step 20; "
        "to go on: --resume --train.patience 4, or 0 for no limit"
    )
    assert main(words) == 0
    assert capfd.readouterr().err.count(told) == 1
    assert main(resume(run)) == 0
    assert capfd.readouterr().err.count(told) == 1
    assert main(resume(run, "--train.patience", "4")) == 0
    assert state(run).step == 100, "minutes were 100: their steps are not forgotten"
    assert state(run).record["steps"] > 1000


# What is refused, and when.


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--minutes", "inf"], "--minutes must be above 0 and finite, got inf"),
        (["--minutes", "nan"], "--minutes must be above 0 and finite, got nan"),
        (["--steps", "3", "--train.rate", "inf"], "train.rate must be a finite number, got inf"),
        (["--steps", "3", "--train.clip", "nan"], "train.clip must be a finite number, got nan"),
        (["--steps", "3", "--train.decay", "inf"], "train.decay must be a finite number, got inf"),
        (["--steps", "3", "--seed", str(2**63)], f"--seed must be at least 0 and below 2^63, got {2**63}"),
        (["--steps", "3", "--seed=-1"], "--seed must be at least 0 and below 2^63, got -1"),
    ],
)
def test_numbers_that_cannot_be(pairs, memory, words, told, capfd):
    assert main(train(pairs, memory / "run", *words)) == 1
    assert capfd.readouterr().err == f"regard: {told}\n"
    assert not (memory / "run").exists()


def test_the_largest_seed(pairs, memory):
    assert main(train(pairs, memory / "run", "--steps", "1", "--seed", str(2**63 - 1))) == 0
    assert main(resume(memory / "run", "--steps", "2")) == 0


def test_the_folder_comes_before_the_data(pairs, memory, capfd, monkeypatch):
    """T9: a second trainer, or a folder that is taken, is told of at once, however much data there is."""
    run = memory / "run"
    assert main(train(pairs, run, "--steps", "1")) == 0
    monkeypatch.setattr("regard.job.splits_of", lambda *_: pytest.fail("the data was read first"))
    capfd.readouterr()
    assert main(train(pairs, run, "--steps", "1")) == 1
    assert "holds a run at step 1: add --resume" in capfd.readouterr().err
    for words in (train(pairs, run, "--steps", "1"), resume(run)):
        with Store(run).lock():
            begin = time.monotonic()
            assert main(words) == 1
            assert time.monotonic() - begin <= 2
        assert f"{run} is in use by process {os.getpid()}" in capfd.readouterr().err


def test_a_mistake_leaves_no_folder(memory, capfd):
    assert main(train(memory / "nothing.tsv", memory / "run", "--steps", "1")) == 1
    assert not (memory / "run").exists()
    assert main(resume(memory / "run")) == 1
    assert "has no state to resume from: leave out --resume to begin" in capfd.readouterr().err
    assert not (memory / "run").exists()


def test_another_model_or_task_is_refused(pairs, memory, capfd):
    run = memory / "run"
    assert main(train(pairs, run, "--steps", "1")) == 0
    capfd.readouterr()
    assert main(["train", "--resume", "--model", "seq2seq", "--out", str(run)]) == 1
    assert f"{run} is a run of the model rnnsearch, and does not go on with seq2seq" in capfd.readouterr().err
    assert main(resume(run, "--preset", "paper")) == 1
    assert f"{run} goes on with the sizes that it has: leave out the preset paper" in capfd.readouterr().err
    with pytest.raises(RegardError, match="is a run of the task translate, and does not go on with copying"):
        beginning("copying", "", "", out=str(run), resume=True)
    assert main(["train", "translate", "--resume", "--model", "rnnsearch", "--out", str(run), "--steps", "2"]) == 0


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: written(path, [*range(89), 500]), "tokenizer.json"),  # a letter that was not there
        (lambda path: written(path, range(91)), "train was 8"),
        (lambda path: written(path, reversed(range(90))), "train was 8"),
    ],
    ids=["a new letter", "one more", "another order"],
)
def test_data_that_has_changed_is_refused(pairs, memory, change, what, capfd):
    run = memory / "run"
    pairs.write_text(pairs.read_text().replace("5", "4"))
    assert main(train(pairs, run, "--steps", "2")) == 0
    change(pairs)
    if what != "tokenizer.json":
        pairs.write_text(pairs.read_text().replace("5", "4"))
    capfd.readouterr()
    assert main(resume(run, "--steps", "4")) == 1
    said = capfd.readouterr().err
    assert f"regard: {pairs} is no longer the data of this run (" in said
    assert what in said
    assert state(run).step == 2


def test_generated_data_goes_on_and_that_of_another_seed_does_not(memory, capfd):
    words = ["train", "translate", "--data", "reversal:5", "--out", str(memory / "run"), "--steps", "1", *TINY]
    assert main([*words, "--task.decoded", "2"]) == 0
    assert main(resume(memory / "run", "--steps", "2")) == 0
    capfd.readouterr()
    assert main(resume(memory / "run", "--steps", "3", "--seed", "1")) == 1
    assert "reversal:5 is no longer the data of this run (" in capfd.readouterr().err


def test_a_state_from_before_the_data_was_noted(pairs, memory):
    """And from when the best was a number."""
    run = memory / "run"
    assert main(train(pairs, run, "--steps", "3", "--train.validate", "2")) == 0
    older = state(run)
    record = {name: v for name, v in older.record.items() if name not in ("data", "machine", "duration")}
    del record["options"]["commands"]
    shutil.rmtree(run / "state")
    store = Store(run)
    with store.lock():
        store.save_state(3, older.tensors, {**record, "best": 0.0})
    assert main(resume(run, "--steps", "5")) == 0
    assert state(run).step == 5


# What is told.


def test_warnings_come_before_the_first_step(pairs, memory, capfd):
    run = memory / "run"
    with pairs.open("a") as file:
        file.write("".join(f"{'9' * 60}{n}\t1\n" for n in range(10)))
    assert main(train(pairs, run, "--steps", "4", "--task.longest", "50", *OFTEN)) == 0
    said = capfd.readouterr().err
    assert re.search(r"\d of 9\d training examples are longer than --task.longest, and were left out\nstep 1/4", said)
    (run / "state" / "step-00000004" / "record.json").write_bytes(b"{}")
    assert main(resume(run, "--steps", "5")) == 0
    said = capfd.readouterr().err
    assert said.index("step-00000004 is passed over: ") < said.index("step 4/5")
    assert said.count("is passed over") == said.count("were left out") == 1


def test_warnings_in_python(pairs, memory):
    run = memory / "run"
    made = {"data": pairs, "config": CONFIG, "settings": Settings(validate=3, save=2)}
    regard.train(out=run, steps=4, **made)
    (run / "state" / "step-00000004" / "record.json").write_bytes(b"{}")
    with pytest.warns(UserWarning, match="step-00000004 is passed over: "):
        regard.train(out=run, steps=5, resume=True)
    with pytest.warns(UserWarning, match="step 5 is reached already"):
        regard.train(out=run, resume=True)


def test_another_machine_is_told_of(pairs, memory, capfd):
    run = memory / "run"
    assert main(train(pairs, run, "--steps", "1")) == 0
    before = torch.get_num_threads()
    assert main(resume(run, "--steps", "2")) == 0
    assert "may differ" not in capfd.readouterr().err
    try:
        torch.set_num_threads(before + 1)
        assert main(resume(run, "--steps", "3")) == 0
    finally:
        torch.set_num_threads(before)
    told = f"threads was {before}, is {before + 1}: the last bits may differ from those of a run that was never stopped"
    assert capfd.readouterr().err.count(told) == 1


def test_a_stop_before_anything_is_published(pairs, memory, capfd):
    run = memory / "run"
    assert stopped(train(pairs, run, *LONG), 7) == 130
    said = capfd.readouterr().err
    assert f"stopped at step 7 of 1000000; go on with: regard train --resume --out {run}" in said
    assert "that was before its first validation, at step 250: there is nothing to predict with yet" in said
    assert main(["predict", str(run), "012"]) == 1
    assert (
        f"{run} is at step 7, before its first validation, so that nothing is published yet: "
        f"go on with regard train --resume --out {run}"
    ) in capfd.readouterr().err


def test_the_card_comes_with_the_model_and_keeps_every_command(pairs, memory):
    run = memory / "run"
    first = train(pairs, run, "--steps", "100", "--train.validate", "2")
    assert stopped(first, 5) == 130
    card = (run / "README.md").read_text()
    assert "    regard train translate --data" in card
    assert "| step | " in card
    assert main(resume(run, "--steps", "6")) == 0
    assert main(resume(run, "--steps", "9", "--train.rate", "0.01")) == 0
    again = [f"regard train --resume --out {run} --steps {more}" for more in ("6", "9 --train.rate 0.01")]
    config = json.loads((run / "config.json").read_text())
    assert config["command"] == "regard " + " ".join(first)
    assert config["went_on_by"] in (again, again[:1], []), "those before it was published"
    assert json.loads((run / "config.json").read_text())["metrics"]["step"] > 0
    assert state(run).record["options"]["commands"] == [config["command"], *again]
    card = (run / "README.md").read_text()
    assert [line.strip() for line in card.splitlines() if line.startswith("    ")] == [
        config["command"],
        *config["went_on_by"],
    ]


# In Python.


def test_python_goes_on_with_the_options_of_the_run(pairs, memory):
    settings = Settings(validate=4, save=2, shape="constant", rate=0.004)
    given = {"data": str(pairs), "config": CONFIG, "settings": settings, "options": Options(decoded=9), "seed": 5}
    regard.train(out=str(memory / "whole"), steps=6, **given)
    regard.train(out=str(memory / "cut"), steps=4, **given)
    run = regard.train(out=str(memory / "cut"), resume=True, steps=6)
    assert (run.config["seed"], run.config["train"]["rate"], run.config["task"]["decoded"]) == (5, 0.004, 9)
    ends = [state(memory / name).tensors for name in ("whole", "cut")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert run.config["command"].startswith(f"regard.train(out='{memory}/cut', data='{pairs}', steps=4, seed=5")


def test_python_is_interrupted_after_saving(pairs, memory, monkeypatch):
    validated = Translate.validated

    def interrupted(*given, **more):
        os.kill(os.getpid(), signal.SIGINT)
        return validated(*given, **more)

    monkeypatch.setattr(Translate, "validated", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 3, and saved: go on with resume=True"):
        regard.train(data=pairs, out=memory / "run", steps=99, config=CONFIG, settings=Settings(validate=3))
    assert state(memory / "run").step == 3
    monkeypatch.undo()
    regard.train(out=memory / "run", resume=True, steps=5)
    assert state(memory / "run").step == 5


def test_python_gets_other_signals_after_saving(pairs, memory, monkeypatch):
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    validated = Translate.validated

    def ended(*given, **more):
        os.kill(os.getpid(), signal.SIGTERM)
        return validated(*given, **more)

    monkeypatch.setattr(Translate, "validated", ended)
    try:
        regard.train(data=pairs, out=memory / "run", steps=99, config=CONFIG, settings=Settings(validate=3))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [signal.SIGTERM]
    assert state(memory / "run").step == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"steps": "5"}, r"regard.train: steps: Expected `int \| null`, got `str`"),
        ({"steps": 5.5}, "regard.train: steps: Expected"),
        ({"minutes": "long"}, "regard.train: minutes: Expected"),
        ({"steps": 0}, "--steps must be above 0"),
        ({"steps": 3, "epochs": 3}, "give one of --steps, --epochs and --minutes, got --steps and --epochs"),
        ({"steps": 3, "seed": -1}, "--seed must be at least 0"),
        ({"steps": 3, "seed": "x"}, "regard.train: seed: Expected `int`, got `str`"),
        ({"steps": 3, "data": 7}, "regard.train: data: Expected `str`, got `int`"),
        ({"steps": 3, "model": 7}, "regard.train: model must be text, got 7"),
        ({"steps": 3, "model": "rnsearch"}, "did you mean .?rnnsearch"),
        ({"steps": 3, "settings": "fast"}, "settings must be a regard.training.settings.Settings, got 'fast'"),
        ({"steps": 3, "config": Settings()}, "config must be a regard.models.rnnsearch.Config, got Settings"),
        ({"steps": 3, "resume": True}, "has no state to resume from"),
        ({"steps": 3, "resume": "yes"}, "regard.train: resume: Expected `bool`, got `str`"),
    ],
)
def test_python_is_typed(memory, given, told):
    with pytest.raises(RegardError, match=told):
        regard.train(out=str(memory / "run"), **given)
    assert not (memory / "run").exists()


def test_help_in_short_names_options_that_there_are(capsys):
    assert main(["train", "--help"]) == 0
    assert capsys.readouterr().out == USAGE + "\n"
    with contextlib.suppress(SystemExit):
        main(["train", "translate", "--help"])
    whole = capsys.readouterr().out
    own = {"--model", "--preset", "--config", "--print-config", "--quiet", "--help"}
    for option in set(re.findall(r"--[a-z-]+", USAGE)) - own:
        assert re.search(rf"{option}\b", whole), option


def test_a_duration_says_itself():
    assert [str(Duration(**given)) for given in ({"steps": 3}, {"minutes": 0.5})] == ["--steps 3", "--minutes 0.5"]
