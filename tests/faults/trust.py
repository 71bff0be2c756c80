"""Faults of training, data and security: what would be seen only after a crash, on a full disk, or by an attacker."""

from tests.faults.seeded import Fault

RESUME = "tests/training/test_resume.py"
FINITE = "tests/training/test_finite.py"
KILLS = "tests/training/test_kills.py"
CRASHES = "tests/training/test_crashes.py::test_the_order_of_a_save"
SINGLE = "tests/training/test_crashes.py::test_the_order_of_a_single_file"
STORE = "tests/training/test_store.py"
DAMAGE = "tests/training/test_damage.py"
LOCK = "tests/training/test_lock.py"
ENDS = "tests/cli/test_ends.py"
LINES = "tests/cli/test_lines.py"
HOSTILE = "tests/data/test_hostile.py"
FUZZ = "tests/training/test_fuzz.py"
TRANSLATE = "tests/tasks/test_translate.py"

FAULTS = (
    Fault(
        "rename before the folder is on the disk",
        "training/files.py",
        "        sync_folder(temporary)\n",
        "",
        (CRASHES,),
    ),
    Fault(
        "a file renamed before it is on the disk",
        "training/files.py",
        "            rest = rest[os.write(number, rest) :]\n        os.fsync(number)\n",
        "            rest = rest[os.write(number, rest) :]\n",
        (SINGLE,),
    ),
    Fault(
        "the state before its lines",
        "training/loop.py",
        "                journal.flush()\n                store.save_state(step, snapshot(model, optimizer, averaged), record, best=better)\n",
        "                store.save_state(step, snapshot(model, optimizer, averaged), record, best=better)\n                journal.flush()\n",
        (KILLS,),
    ),
    Fault(
        "random numbers from a global state",
        "training/loop.py",
        "    torch.manual_seed(((key[0] * 1_000_003 + key[1]) * 1_000_003 + key[2]) % 2**63)\n",
        "",
        (RESUME,),
    ),
    Fault(
        "the parts of a step all draw the same",
        "training/loop.py",
        "(*key, number))\n            torch.autograd",
        "(*key, 0))\n            torch.autograd",
        ("tests/training/test_loop.py::test_every_part_of_a_step_has_a_seed_of_its_own",),
    ),
    Fault(
        "the schedule one step late after a resumption",
        "training/loop.py",
        "rate(step, steps",
        "rate(step - (begin > 0), steps",
        (RESUME,),
    ),
    Fault(
        "an epoch begins anew at a resumption",
        "training/loop.py",
        'record["place"], settings.accumulate)',
        "0, settings.accumulate)",
        (RESUME,),
    ),
    Fault(
        "the averages are not restored",
        "training/moments.py",
        "        averaged[name].copy_(tensor)\n",
        "        pass\n",
        (RESUME,),
    ),
    Fault(
        "the moments are not restored",
        "training/moments.py",
        "            optimizer.state[parameter] = moments\n",
        "            pass\n",
        (RESUME,),
    ),
    Fault(
        "patience forgotten at a resumption",
        "training/loop.py",
        "begin, record, warnings = state.step, state.record,",
        'begin, record, warnings = state.step, {**state.record, "waited": 0},',
        (RESUME,),
    ),
    Fault(
        "a step that is not finite is applied",
        "training/finite.py",
        "    if math.isfinite(likelihood) and math.isfinite(norm):\n",
        "    if True:\n",
        (FINITE,),
    ),
    Fault(
        "an infinite norm is clipped",
        "training/finite.py",
        "    if math.isfinite(likelihood) and math.isfinite(norm):\n",
        "    if math.isfinite(likelihood):\n",
        (FINITE,),
    ),
    Fault(
        "weights that are not finite are saved",
        "training/finite.py",
        '    if where:\n        raise Diverged(f"step {step}: {where};',
        '    if False:\n        raise Diverged(f"step {step}: {where};',
        (FINITE,),
    ),
    Fault(
        "a validation of NaN is the best",
        "training/finite.py",
        "        if not math.isfinite(value):\n",
        "        if False:\n",
        (FINITE,),
    ),
    Fault(
        "the best is not kept",
        "training/store.py",
        "            elif listed.best and not best:\n",
        "            elif False:\n",
        (STORE,),
    ),
    Fault(
        "the newest by the clock",
        "training/store.py",
        "key=_order, reverse=True)",
        "key=lambda name: os.stat(self._states / name).st_mtime, reverse=True)",
        (STORE,),
    ),
    Fault(
        "hashes are not compared",
        "training/manifest.py",
        "    if hashlib.sha256(data).hexdigest() != entry.sha256:\n",
        "    if False:\n",
        (DAMAGE + "::test_a_file_of_another_run",),
    ),
    Fault(
        "the lock is not looked at",
        "training/lock.py",
        "        _refuse_if_held(run)\n        lock = Held(",
        "        lock = Held(",
        (LOCK + "::test_a_second_trainer_is_refused_at_once",),
    ),
    Fault(
        "the second signal waits as well",
        "training/stopping.py",
        "            os._exit(128 + number)\n",
        "            return\n",
        (ENDS + "::test_a_second_signal_ends_at_once",),
    ),
    Fault(
        "a reader that goes ends the run unsaved",
        "training/stopping.py",
        "            self.signal = self.signal or signal.SIGPIPE\n",
        "            raise\n",
        (ENDS + "::test_a_reader_that_has_gone",),
    ),
    Fault(
        "memory that runs out outside of a batch",
        "training/loop.py",
        ', explained_memory("what a step adds to its batches: optimiser, validation, save"):',
        ":",
        ("tests/training/test_memory.py",),
    ),
    Fault(
        "no room for a line of metrics",
        "training/files.py",
        '    with _explained(path.parent, [len(data)]), open(path, "ab") as file:',
        '    with open(path, "ab") as file:',
        ("tests/training/test_full_disk.py::test_a_line_that_finds_no_room",),
    ),
    Fault(
        "padding counts in the loss",
        "tasks/translate.py",
        "ignore_index=PAD, reduction",
        "ignore_index=-100, reduction",
        (TRANSLATE,),
    ),
    Fault(
        "lines by splitlines",
        "data/lines.py",
        "        for number, raw in enumerate(stream, 1):",
        "        for number, raw in enumerate((part.encode() + b'\\n' for part in b''.join(stream).decode().splitlines()), 1):",
        (HOSTILE,),
    ),
    Fault(
        "two files to the end of the shorter",
        "data/readers.py",
        "in zip_longest(lines_of(first, source), lines_of(second, target)):",
        "in zip(lines_of(first, source), lines_of(second, target)):",
        (HOSTILE,),
    ),
    Fault(
        "a shard that is no file is left out",
        "data/readers.py",
        "        if not is_file and kind_of(path.name) in",
        "        if False and kind_of(path.name) in",
        (HOSTILE,),
    ),
    Fault(
        "the output is emptied before the input is read",
        "cli/predict.py",
        "    if len(both) == 2 and os.path.samefile(*both):\n",
        "    if False:\n",
        (LINES + "::test_a_file_is_never_lost",),
    ),
    Fault(
        "an answer of several lines",
        "cli/predict.py",
        '.replace("\\n", " ")',
        "",
        (LINES + "::test_a_thousand_random_files",),
    ),
    Fault(
        "empty lines are not answered",
        "cli/predict.py",
        "        while chunk := [_text(line) for line in itertools.islice(lines, CHUNK)]:",
        "        while chunk := [_text(line) for line in itertools.islice(lines, CHUNK) if line.strip()]:",
        (LINES + "::test_a_thousand_random_files",),
    ),
    Fault(
        "a stranger's configuration ends in a traceback",
        "run.py",
        "    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as fact:",
        "    except ZeroDivisionError as fact:",
        (FUZZ,),
    ),
)
"""In the form of `seeded.py`."""
