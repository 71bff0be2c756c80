"""What a user may type wrongly: numbers out of range, names that are near to another, streams that are closed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import main
from regard.run import evaluated

pytestmark = pytest.mark.usefixtures("unchecked")

SIZES = ["--model.width", "3", "--model.embedding", "2", "--model.readout", "2", "--model.alignment", "2"]
ROWS = [f"{n} {n + 1}\t{n + 1} {n}" for n in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a table with names of its own, of a step."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("numbers")
    (path / "p.tsv").write_text("\n".join(["from\tto", *ROWS]))
    words = ["train", "translate", "--data", str(path / "p.tsv"), "--out", str(path / "run"), "--steps", "1", *SIZES]
    assert main([*words, "--read.source", "from", "--read.target", "to", "--task.longest", "9"]) == 0
    return path


@pytest.fixture(scope="module")
def run(folder):
    return str(folder / "run")


WRONG = {
    "--beam": (["predict", "RUN", "x"], ["0", "-1", "nan", "two", "1.5", ""], "--beam must be"),
    "--best": (["predict", "RUN", "x", "--json"], ["0", "-3", "x"], "--best must be"),
    "--length-penalty": (["predict", "RUN", "x"], ["nan", "inf", "-inf", "x"], "--length-penalty must be"),
    "--temperature": (["predict", "RUN", "x", "--sample"], ["0", "-1", "nan", "inf", "x"], "--temperature must be"),
    "--top-k": (["predict", "RUN", "x", "--sample"], ["-1", "1.5", "nan"], "--top-k must be"),
    "--top-p": (["predict", "RUN", "x", "--sample"], ["0", "2", "-0.5", "nan", "inf"], "--top-p must be"),
    "--seed": (["predict", "RUN", "x", "--sample"], ["-1", str(2**63), "1e3", "nan"], "--seed must be"),
    "--edges": (["eval", "RUN"], ["5,5", "0", "9,3", "x", "-1", "1,,2", "²", "1.5", "", "9" * 5000], "--edges must be"),
    "--beam of eval": (["eval", "RUN"], ["0", "-1", "nan"], "--beam must be"),
    "--length-penalty of eval": (["eval", "RUN"], ["nan", "inf"], "--length-penalty must be"),
    "--steps of demo": (["demo"], ["0", "-1", "nan", "x"], "--steps must be"),
}


@pytest.mark.parametrize(("option", "value"), [(name, value) for name in WRONG for value in WRONG[name][1]])
def test_a_number_out_of_range(option, value, run, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, _, text = WRONG[option]
    words = [run if word == "RUN" else word for word in words]
    assert main([*words, f"{option.split()[0]}={value}"]) == 1
    said = capfd.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_the_numbers_that_are_allowed(run, capfd):
    for option, value in (("--temperature", "0.01"), ("--top-k", "0"), ("--top-p", "1"), ("--seed", str(2**63 - 1))):
        assert main(["predict", run, "1", "--sample", option, value]) == 0
    for value in ("-1", "0", "2.5"):
        assert main(["predict", run, "1", "--beam", "2", "--length-penalty", value]) == 0
    assert main(["eval", run, "--edges", "1,2,30", "--no-text-scores"]) == 0
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["predict", "RUN", "x", "--temprature", "2"],
            "predict: there is no option --temprature: did you mean '--temp",
        ),
        (["predict", "RUN", "x", "--bem=2"], "predict: there is no option --bem: did you mean '--beam'?"),
        (["eval", "RUN", "--dta", "x"], "eval: there is no option --dta: did you mean '--data'?"),
        (["eval", "RUN", "--read.sorce", "x"], "eval: there is no option --read.sorce: did you mean '--read.source'?"),
        (["eval", "RUN", "--split", "tset"], "there is no split 'tset': did you mean 'test'?"),
        (["look", "RUN", "x", "--too", "json"], "look: there is no option --too: did you mean '--to'?"),
        (["look", "RUN", "x", "--to", "jsno"], "look: --to jsno is not known: did you mean 'json'?"),
        (["ls", "modls"], "ls: there is no list 'modls': did you mean 'models'?"),
        (["reproduce", "--reslts", "x"], "reproduce: there is no option --reslts: did you mean '--results'?"),
        (["reproduce", "dats"], "there is no claim 'dats': did you mean 'dates'?"),
        (["train", "translate", "--model", "seqseq"], "there is no model 'seqseq': did you mean 'seq2seq'?"),
        (["train", "translate", "--preset", "papr"], "rnnsearch has no preset 'papr': did you mean 'paper'?"),
        (["train", "trnslate"], "there is no task 'trnslate': did you mean 'translate'?"),
    ],
)
def test_the_nearest_name(words, text, run, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([run if word == "RUN" else word for word in words]) == 1
    assert text in capfd.readouterr().err


def shell(line, **environment):
    done = subprocess.run(
        ["sh", "-c", line.replace("regard", f"{sys.executable} -m regard")],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout, done.stderr.decode()


def test_streams_that_are_closed(run):
    code, _, said = shell(f"regard predict {run} <&-")
    assert (code, said) == (1, "regard: predict: the standard input is closed: give --input\n")
    code, _, said = shell(f"regard predict {run} 1 >&-")
    assert (code, said) == (1, "regard: predict: the standard output is closed: give --output\n")
    assert shell("regard ls models >&-")[0] == 0


def test_an_output_that_is_not_unicode(run):
    """What the encoding does not have is written by its number, as Python does on the error stream."""
    code, out, _ = shell(f"regard look {run} 1", PYTHONIOENCODING="ascii")
    assert (code, out.startswith(b"1  \\u2192  ")) == (0, True)
    assert shell(f"regard eval {run}", PYTHONIOENCODING="ascii")[0] == 0


def test_a_text_that_begins_with_dashes(run, capfdbinary):
    assert main(["predict", run, "--beam", "2", "--", "--json", "-h", "--"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 3
    assert main(["look", run, "--to", "json", "--", "--1"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["source"][-2:] == ["1", "∎"]
    assert main(["predict", run, "--", "--help"]) == 0
    assert b"usage" not in capfdbinary.readouterr().out


def measured(words, capfd):
    assert main(["eval", *words, "--json", "--no-text-scores"]) == 0, capfd.readouterr().err
    return json.loads(capfd.readouterr().out)


def test_a_file_of_ones_own_is_measured_whole(folder, run, tmp_path, capfd):
    """All 30 of its pairs, in the columns of the run; a split that is named is a part of it."""
    own = tmp_path / "mytest.tsv"
    own.write_text("\n".join(["number\tto\tfrom", *(f"{n}\t{n} 1\t1 {n}" for n in range(30))]))
    found = measured([run, "--data", str(own)], capfd)
    assert (found["examples"], found["split"], found["data"]) == (30, "test", str(own))
    assert evaluated(regard.load(run), data=str(own), text_scores=False).as_json()["loss"] == found["loss"]
    other = measured([run, "--data", str(own), "--read.source", "to", "--read.target=from"], capfd)
    assert (other["examples"], other["loss"] == found["loss"]) == (30, False)
    parts = [measured([run, "--data", str(own), "--split", part], capfd) for part in ("train", "valid", "test")]
    assert sum(part["examples"] for part in parts) == 30 > parts[2]["examples"]
    assert main(["eval", run, "--data", str(own), "--read.source", "form"]) == 2
    assert "no column named 'form'" in capfd.readouterr().err
    assert main(["eval", run, "--data", str(own), "--read.empty", "skp"]) == 1
    assert "--read: empty: " in capfd.readouterr().err


def test_what_comes_divided_stays_divided(run, tmp_path, capfd):
    (tmp_path / "parts").mkdir()
    for name, count in (("train", 5), ("test", 7)):
        (tmp_path / "parts" / f"{name}.tsv").write_text("\n".join(["from\tto", *ROWS[:count]]))
    assert measured([run, "--data", str(tmp_path / "parts")], capfd)["examples"] == 7
    assert measured([run, "--data", "copy:3"], capfd)["examples"] == 2000
    for side in range(2):
        (tmp_path / f"{side}").write_text("\n".join(row.split("\t")[side] for row in ROWS[:9]))
    assert measured([run, "--data", f"{tmp_path}/0,{tmp_path}/1"], capfd)["examples"] == 9


def test_gold_alignments_that_do_not_fit(run, tmp_path, capfd):
    own, gold = tmp_path / "own.tsv", tmp_path / "gold"
    own.write_text("from\tto\n1 2\t3 4 5\n6\t7\n")
    gold.write_text("0-0 1-2\n1-0\n")
    assert main(["eval", run, "--data", str(own), "--gold", str(gold)]) == 2
    assert f"{gold}:2: '1-0' is outside of the pair, of 1 and 1 words" in capfd.readouterr().err
    gold.write_text("0-0 1-2\n")
    assert main(["eval", run, "--data", str(own), "--gold", str(gold)]) == 2
    assert f"{gold}: 1 alignments for 2 pairs: expected a line for each" in capfd.readouterr().err
    gold.write_text("0-0 1?2\n0-0\n")
    assert set(measured([run, "--data", str(own), "--gold", str(gold)], capfd)["alignment"]) >= {"error_rate", "links"}


def test_answers_that_are_cut_are_counted(run, capfd, monkeypatch):
    monkeypatch.setattr(
        "regard.tasks.translate.Translate.most_written", lambda self, length: torch.full_like(length, 1)
    )
    assert main(["predict", run, "1 2", "3"]) == 0
    found = re.search(r"(\d+) answers were cut before their end: training showed none as long", capfd.readouterr().err)
    assert found is not None
    assert found[1] == "2"


def test_a_run_keeps_how_much_is_written(run):
    task = json.loads((regard.load(run).path / "config.json").read_text())["task"]
    assert (task["longest_answer"], task["ratio"]) == (6, 1.0)
    assert regard.load(run).task.options.longest_answer == 6


def test_lines_that_are_too_long_are_named(tmp_path, capfd):
    path = tmp_path / "p.tsv"
    path.write_text("\n".join(ROWS))
    words = ["train", "translate", "--data", str(path), "--out", str(tmp_path / "run"), "--steps", "1", *SIZES]
    assert main([*words, "--task.longest", "3"]) == 2
    assert "pairs is longer than --task.longest 3 tokens: raise it" in capfd.readouterr().err


def test_a_run_in_python(run):
    loaded = regard.load(run)
    assert re.fullmatch(rf"Run\(rnnsearch, translate, [\d,]+ parameters, step 1, {run}\)", repr(loaded))
    assert len(loaded.predict(["1", "2"])) == 2
    with pytest.raises(regard.errors.RegardError, match="expected a list of lines, got one text: put it into a list"):
        loaded.predict("ab")
    with pytest.raises(regard.errors.RegardError, match="did you mean 'beam'"):
        loaded.with_options(beem=3)
    with pytest.raises(regard.errors.RegardError, match="size=0: expected at least 1"):
        loaded.predict(["ab"], size=0)


def test_a_loaded_run_draws_no_dropout(folder, capfd):
    """Half of all entries set to 0 would change the weights and probabilities of every answer."""
    words = ["train", "translate", "--data", str(folder / "p.tsv"), "--out", str(folder / "dropped"), "--steps", "1"]
    words += ["--read.source", "from", "--read.target", "to", *SIZES, "--model.dropout", "0.5"]
    assert main(words) == 0
    loaded = regard.load(folder / "dropped")
    first, second = (loaded.look(["1 2", "3 4"]) for _ in range(2))
    assert first == second
    assert not loaded.model.training


def test_every_licence_is_listed(capfd):
    assert main(["ls", "data"]) == 0
    said = capfd.readouterr().out
    for licence in ("CC BY 2.0 FR", "unrestricted, Carnegie Mellon University", "none stated for the text"):
        assert f"licence: {licence}" in said


def test_bench_names_what_there_is(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench"]) == 1
    assert "there is no benchmarks/ here: call it in a clone of the source" in capsys.readouterr().err
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["bench", "atention"]) == 1
    assert "did you mean 'attention'?" in capsys.readouterr().err
    assert main(["bench", "attention", "costz"]) == 1
    assert "there is no part 'costz': did you mean 'costs'?" in capsys.readouterr().err
