"""Faults of training, data and security: what would be seen only after a crash, on a full disk, or by an attacker."""

from tests.faults.seeded import Fault

LOOP = "tests/training/test_loop.py"
TRAINING = "tests/cli/test_training.py"
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
NUMBERS = "tests/cli/test_numbers.py"

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
        'begin, record = state.step, {**state.record, "options"',
        'begin, record = state.step, {**state.record, "waited": 0, "options"',
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
        "a validation with dropout",
        "training/loop.py",
        "        self.model.eval()\n",
        "",
        (LOOP + "::test_a_validation_is_of_the_model_as_it_is_used",),
    ),
    Fault(
        "no dropout after a validation",
        "training/loop.py",
        "        self._put(self.kept)\n        self.model.train()\n",
        "        self._put(self.kept)\n",
        (LOOP + "::test_a_validation_is_of_the_model_as_it_is_used",),
    ),
    Fault(
        "biases decay instead of matrices",
        "training/loop.py",
        '"weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}',
        '"weight_decay": 0.0}, {"params": others, "weight_decay": settings.decay}',
        (LOOP + "::test_matrices_decay_and_biases_do_not",),
    ),
    Fault(
        "no clipping",
        "training/loop.py",
        "    if settings.clip:\n",
        "    if False:\n",
        (LOOP + "::test_a_gradient_is_clipped",),
    ),
    Fault(
        "a mean over batches",
        "training/loop.py",
        "        gradient /= count\n",
        "        gradient /= len(places)\n",
        (LOOP + "::test_a_gradient_is_of_the_mean_over_tokens",),
    ),
    Fault(
        "the first of equals stands for ever",
        "training/loop.py",
        "bool(reached > task.goodness(best))",
        "bool(reached[0] > task.goodness(best)[0])",
        (LOOP + "::test_where_the_metric_ties_the_lower_loss_is_better",),
    ),
    Fault(
        "the last of equals is taken for better",
        "training/loop.py",
        "bool(reached > task.goodness(best))",
        "bool(reached >= task.goodness(best))",
        (LOOP + "::test_where_the_metric_ties_the_lower_loss_is_better",),
    ),
    Fault(
        "a lower loss is worse",
        "tasks/translate.py",
        'return (-value if self.options.metric == "loss" else value, -measures["loss"])',
        'return (-value if self.options.metric == "loss" else value, measures["loss"])',
        (TRANSLATE,),
    ),
    Fault(
        "other data goes unnoticed",
        "training/resuming.py",
        '    if changed := _changed(record.get("data"), now):\n',
        '    if (changed := _changed(record.get("data"), now)) and False:\n',
        (TRAINING + "::test_data_that_has_changed_is_refused",),
    ),
    Fault(
        "other examples of the same number go unnoticed",
        "training/resuming.py",
        "repr([examples[place] for place in chosen])",
        "repr(len(chosen))",
        (TRAINING + "::test_data_that_has_changed_is_refused",),
    ),
    Fault(
        "more minutes are the same steps",
        "training/resuming.py",
        'int(state.record["steps"] * (minutes / before))',
        'int(state.record["steps"])',
        (TRAINING + "::test_more_minutes_are_more_steps",),
    ),
    Fault(
        "a duration beside the one before",
        "job.py",
        "return job if said else dataclasses.replace(job, **self.lasting)",
        "return dataclasses.replace(job, **{k: v for k, v in self.lasting.items() if v is not None})",
        (TRAINING + "::test_how_long_is_said_anew",),
    ),
    Fault(
        "patience forgets how far the run was to go",
        "training/loop.py",
        "            ends = step == steps or stop.signal or impatient(record, settings)\n",
        "            ends = step == steps or stop.signal or impatient(record, settings)\n"
        '            record["steps"] = steps = step if impatient(record, settings) else steps\n',
        (TRAINING + "::test_patience_is_told_with_its_remedy",),
    ),
    Fault(
        "the folder is looked at after the data",
        "job.py",
        "        state = found(store, resume=job.resume)\n        begun = 0 if state is None else state.step\n"
        "        splits = splits_of(job.data, job.read, job.seed)\n",
        "        splits = splits_of(job.data, job.read, job.seed)\n        state = found(store, resume=job.resume)\n"
        "        begun = 0 if state is None else state.step\n",
        (TRAINING + "::test_the_folder_comes_before_the_data",),
    ),
    Fault(
        "Python's interrupt is swallowed",
        "job.py",
        "    if outcome.stopped == signal.SIGINT:\n",
        "    if outcome.stopped == signal.SIGUSR1:\n",
        (TRAINING + "::test_python_is_interrupted_after_saving",),
    ),
    Fault(
        "the first command is lost",
        "job.py",
        "return before if before[-1:] == [command] else [*before, command]",
        "return [command]",
        (TRAINING + "::test_the_card_comes_with_the_model_and_keeps_every_command",),
    ),
    Fault(
        "a rate that is infinite",
        "training/settings.py",
        "            if isinstance(value, float) and not math.isfinite(value):\n",
        "            if isinstance(value, float) and math.isnan(value):\n",
        (TRAINING + "::test_numbers_that_cannot_be",),
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
    Fault(
        "only the top layer's state is handed over",
        "models/seq2seq.py",
        "        _, (hidden, cell) = self.encoder(packed)\n",
        "        _, (hidden, cell) = self.encoder(packed)\n        hidden = hidden[-1:].expand_as(hidden)\n",
        ("tests/models/test_translators.py",),
    ),
    Fault(
        "a loaded run keeps its dropout",
        "run.py",
        "return Run(Path(path), config, model.eval(), task)",
        "return Run(Path(path), config, model, task)",
        (NUMBERS + "::test_a_loaded_run_draws_no_dropout",),
    ),
    Fault(
        "a space between all pieces of words",
        "data/tokens.py",
        "            if left in self._apart and right in self._apart:\n",
        "            if self.kind == 'words':\n",
        ("tests/data/test_tokens.py",),
    ),
    Fault(
        "an alignment by the mean of a word's tokens",
        "decode/alignment.py",
        ".double() @ columns\n",
        ".double() @ (columns / columns.sum(0))\n",
        (TRANSLATE,),
    ),
    Fault(
        "gold links outside of their pair",
        "measure/alignment.py",
        "        if words is not None and not (",
        "        if False and not (",
        (NUMBERS + "::test_gold_alignments_that_do_not_fit",),
    ),
    Fault(
        "a bound of what is written that data does not know",
        "tasks/translate.py",
        "        return (1.25 * shown).ceil().long() + 20\n",
        "        return 2 * length + 20\n",
        (TRANSLATE,),
    ),
    Fault(
        "pairs that are too long are not counted",
        "tasks/judging.py",
        "    return total + Likelihood(skipped=len(plan.too_long))\n",
        "    return total\n",
        (TRANSLATE,),
    ),
    Fault(
        "a twentieth of one's own test file",
        "run.py",
        "    whole = None if data is None or split else undivided(data, read)\n",
        "    whole = None\n",
        (NUMBERS + "::test_a_file_of_ones_own_is_measured_whole",),
    ),
)
"""In the form of `seeded.py`."""
