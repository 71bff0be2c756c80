"""The command line as a user meets it: from data to a run, its answers, its pictures, its errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import regard
from regard.cli import COMMANDS, main, printable
from regard.models.rnnsearch import Config as RnnSearchConfig
from regard.training.settings import Settings

TINY = ["--model.width", "8", "--model.embedding", "6", "--train.validate", "3", "--train.save", "2"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in (f"{n:03}" for n in range(120))))
    return path


@pytest.fixture(scope="module")
def trained(pairs):
    out = pairs.parent / "run"
    assert main(["train", "translate", "--data", str(pairs), "--out", str(out), "--steps", "5", *TINY]) == 0
    return out


def test_a_run_is_a_folder_that_people_can_read(trained):
    names = {path.name for path in trained.iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "manifest.json",
        "metrics.jsonl",
        "README.md",
    }
    config = json.loads((trained / "config.json").read_text())
    assert (config["model_type"], config["seed"], config["model"]["width"]) == ("regard.rnnsearch", 0, 8)
    assert config["command"].startswith("regard train translate --data")
    assert "Bahdanau" in (trained / "README.md").read_text()
    assert str(trained) not in (trained / "config.json").read_text().replace(config["command"], "")
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5]


def test_a_line_in_a_line_out(trained, tmp_path, capfdbinary):
    assert main(["predict", str(trained), "012", "", "999"]) == 0
    given = capfdbinary.readouterr().out
    assert given.count(b"\n") == 3
    source = tmp_path / "in.txt"
    lines = [
        b"012",
        b"",
        b"\xff\xfe broken",
        b"a\x0bb\xe2\x80\xa8c",
        b"  ",
        b"x" * 5000,
        b"tab\tin it",
        b"last without end",
    ]
    source.write_bytes(b"\r\n".join(lines[:4]) + b"\n" + b"\n".join(lines[4:]))
    target = tmp_path / "out.txt"
    assert main(["predict", str(trained), "--input", str(source), "--output", str(target)]) == 0
    assert target.read_bytes().count(b"\n") == len(lines)
    assert target.read_bytes().split(b"\n")[0] == given.split(b"\n")[0]


def test_python_is_the_same_thing(trained, capfd):
    main(["predict", str(trained), "012", "120"])
    assert regard.load(trained).predict(["012", "120"]) == capfd.readouterr().out.splitlines()


def test_look(trained, capfd):
    assert main(["look", str(trained), "012"]) == 0
    drawn = capfd.readouterr().out
    assert drawn.startswith("012  →  ")
    assert "012∎" in drawn


def test_look_for_programs(trained, capfd):
    assert main(["look", str(trained), "012", "", "--to", "pharaoh"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(r"(\d+-\d+ ?)*", line) for line in lines)
    assert main(["look", str(trained), "012", "--to", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["source"] == ["0", "1", "2", "∎"]
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in found["weights"])


def test_several_answers_as_json(trained, capfd):
    assert main(["predict", str(trained), "012", "77", "--beam", "4", "--best", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["source"] for line in lines] == ["012", "77"]
    assert all(len(line["answers"]) == 3 for line in lines)
    assert main(["predict", str(trained), "012", "--sample", "--seed", "5", "--top-k", "3"]) == 0
    first = capfd.readouterr().out
    assert main(["predict", str(trained), "012", "--sample", "--seed", "5", "--top-k", "3"]) == 0
    assert capfd.readouterr().out == first


def test_python_trains_too(pairs, tmp_path):
    settings = Settings(validate=3, save=2)
    config = RnnSearchConfig(width=8, embedding=6)
    out = str(tmp_path / "run")
    made = regard.train(data=str(pairs), out=out, steps=5, settings=settings, config=config)
    assert made.predict(["012"]) == regard.load(out).predict(["012"])


def test_the_options_as_a_file(pairs, tmp_path, capfd):
    words = ["train", "translate", "--data", str(pairs), *TINY, "--steps", "3"]
    assert main([*words, "--out", str(tmp_path / "a"), "--print-config"]) == 0
    said = capfd.readouterr().out
    assert json.loads(said)["model"]["width"] == 8
    assert not (tmp_path / "a").exists()
    file = tmp_path / "options.json"
    file.write_text(said)
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    assert main(["train", "translate", "--config", str(file), "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_columns_and_parts_of_ones_own(tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text("id,german,english\n" + "".join(f"{n},{n:03},{n + 1:03}\n" for n in range(50)))
    other = tmp_path / "dev.csv"
    other.write_text("id,german,english\n" + "".join(f"{n},{n:03},{n + 1:03}\n" for n in range(60, 70)))
    words = ["train", "translate", "--data", str(table), "--read.source", "german", "--read.target", "english"]
    words += ["--read.valid", str(other), "--read.test", str(other)]
    assert main([*words, "--out", str(tmp_path / "run"), "--steps", "3", *TINY]) == 0
    assert main(["eval", str(tmp_path / "run")]) == 0


def test_eval(trained, capfd):
    assert main(["eval", str(trained), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert set(found) >= {
        "run",
        "split",
        "examples",
        "loss",
        "perplexity",
        "exact",
        "token_errors",
        "by_length",
        "BLEU",
    }
    assert found["BLEU"]["signature"].startswith("nrefs:1|bs:1000")
    assert main(["eval", str(trained), "--split", "valid"]) == 0
    assert "perplexity" in capfd.readouterr().out


def test_a_run_goes_on_with_its_own_options(pairs, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    common = ["train", "translate", "--data", str(pairs), *TINY, "--train.shape", "constant"]
    assert main([*common, "--out", str(whole), "--steps", "6"]) == 0
    assert main([*common, "--out", str(cut), "--steps", "4"]) == 0
    assert main(["train", "--resume", "--out", str(cut), "--steps", "6"]) == 0
    read = [[line for line in (p / "metrics.jsonl").read_text().splitlines() if '"loss"' in line] for p in (whole, cut)]
    assert read[0] == read[1]
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()


def test_a_configuration_file(pairs, tmp_path, capfd):
    file = tmp_path / "options.toml"
    file.write_text("[model]\nwidth = 12\n[train]\nrate = 0.01\n")
    out = tmp_path / "run"
    words = ["train", "translate", "--config", str(file), "--data", str(pairs), "--out", str(out), "--steps", "2"]
    assert main([*words, "--train.rate", "0.02"]) == 0
    config = json.loads((out / "config.json").read_text())
    assert (config["model"]["width"], config["train"]["rate"]) == (12, 0.02)
    file.write_text("[model]\nwidht = 12\n")
    assert main(words) == 1
    assert "there is no option 'widht': did you mean width?" in capfd.readouterr().err
    file.write_text('[model]\nwidth = "twelve"\n')
    assert main(words) == 1
    assert "width: Expected `int`, got `str`" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["trian"], 1, "there is no command 'trian': did you mean train?"),
        (["train"], 1, "name a task, such as: regard train translate --data dates --out runs/dates"),
        (["train", "translat", "--steps", "3"], 1, "there is no task 'translat'"),
        (["train", "translate", "--model", "rnsearch"], 1, "did you mean 'rnnsearch'?"),
        (["train", "translate", "--modle", "seq2seq"], 1, "there is no option --modle: did you mean --model?"),
        (["train", "translate", "--preset", "huge"], 1, "rnnsearch has no preset 'huge': one of: paper, small"),
        (["train", "translate", "--model.widht", "3"], 1, "--model.width"),
        (["train", "translate", "--steps", "3", "--epochs", "3"], 1, "give one of --steps, --epochs and --minutes"),
        (["train", "translate", "--data", "nothing.tsv", "--steps", "3"], 1, "nothing.tsv"),
        (["predict"], 1, "name a run folder"),
        (["predict", "nowhere", "x"], 1, "nowhere"),
        (["look", "nowhere"], 1, "regard look RUN TEXT"),
        (["eval"], 1, "name one run folder"),
        (["eval", "run", "--beam", "two"], 1, "--beam must be a whole number, got two"),
        (["eval", "run", "--edges", "1,x"], 1, "--edges must be whole numbers"),
        (["predict", "run", "--temperature", "2"], 1, "temperature is for drawing: add --sample"),
        (["predict", "run", "--best", "3"], 1, "needs --json"),
        (["predict", "run", "--bem", "3"], 1, "there is no option --bem"),
        (["look", "run", "x", "--to", "png"], 1, "look: --to png is not known: one of: json, matrix, pharaoh"),
        (["reproduce", "reversl"], 1, "there is no claim 'reversl': did you mean 'reversal'?"),
        (["demo", "--stepss", "3"], 1, "takes --out RUN and --steps N only, got --stepss 3"),
        (["cite", "nobody"], 1, "there is no model 'nobody'"),
        (["ls", "cats"], 1, "ls: there is no list 'cats': "),
    ],
)
def test_a_mistake_is_explained(words, code, text, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    said = capfd.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_bad_data_has_an_exit_code_of_its_own(tmp_path, capfd):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a\tb\nc\xff\td\n")
    assert main(["train", "translate", "--data", str(path), "--out", str(tmp_path / "run"), "--steps", "2"]) == 2
    assert f"{path}:2: " in capfd.readouterr().err


def test_a_damaged_run_is_refused(trained, tmp_path, capfd):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert main(["predict", str(copy), "012"]) == 2
    assert "model.safetensors" in capfd.readouterr().err


def test_a_run_folder_is_not_written_over(trained, pairs, capfd):
    assert main(["train", "translate", "--data", str(pairs), "--out", str(trained), "--steps", "9", *TINY]) == 1
    assert "holds a run at step 5: add --resume" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(pairs, tmp_path, number):
    out = tmp_path / "run"
    words = [sys.executable, "-m", "regard", "train", "translate", "--data", str(pairs), "--out", str(out)]
    words += ["--steps", "100000", *TINY, "--train.save", "100000", "--train.validate", "100000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert any("step " in line for line in process.stderr)
        time.sleep(0.3)
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == 128 + number
    assert f"go on with: regard train --resume --out {out}" in said
    assert (out / "state").is_dir()
    assert list((out / "state").iterdir())


def test_help_is_quick_and_imports_no_torch():
    code = "import sys; from regard.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    for words in (
        ["--help"],
        ["ls"],
        ["ls", "models"],
        ["cite", "rnnsearch"],
        ["cite", "--help"],
        ["train", "--help"],
        ["--version"],
        ["trian"],
    ):
        begin = os.times()
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
        spent = os.times()
        assert done.returncode == 0, words
        assert spent.children_user + spent.children_system - begin.children_user - begin.children_system < 0.5


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capfd):
    assert main([name, "--help"]) == 0
    assert "usage: regard" in capfd.readouterr().out


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "regard", "ls", "models"], capture_output=True, text=True, check=True)
    assert "rnnsearch" in done.stdout


def test_nothing_from_data_moves_the_cursor():
    assert printable("a\x1b[2Jb\u202ec\nd") == "a\\x1b[2Jb\\u202ec\nd"


def test_demo_learns_and_draws(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--steps", "2"]) == 0
    said = capfd.readouterr().out
    assert "mercredi 18 novembre 2026  →" in said
    assert "Try: regard look runs/dates" in said
    assert Path("runs/dates/model.safetensors").exists()
