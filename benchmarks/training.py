"""`rnnsearch` in training beside JoeyNMT's recurrent model, as ratios in one run.

    python -m benchmarks.training [--json FILE] [--repeats 7] [--threads 1]

A step is forward, backward, clipping and AdamW on the same batch: the same vocabulary, lengths, and widths of token
and state, in the same precision. Both attend by an additive score and read with one bidirectional layer. What
differs is the models' own. JoeyNMT's unit takes back the vector that it reads out, of the state's width; ours takes
the context, and reads out a maxout of half that width, as the paper has it. JoeyNMT's score is as wide as its state;
for dates ours is the preset's, a third less. The table says how many parameters each has.

Times are the best of several, taken in turn, so that what else the machine does touches both alike. A ratio above 1
says how many times more tokens ours trains on in a second.

JoeyNMT is not installed with regard: pip install --no-deps joeynmt==2.3.0
"""

import argparse
import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.attention import best
from regard.models.rnnsearch import Config, RnnSearch
from regard.nn.stepwise import BEGIN

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """What both models and their batch are.

    Attributes:
        name: As the table names it.
        width: Of a state.
        embedding: Of a token.
        alignment: Hidden units of our score.
        vocabulary: Of source and target.
        source: Tokens of the longest source; the lengths go down to half of it.
        target: Tokens of each target.
        batch: Sentences.
    """

    name: str
    width: int
    embedding: int
    alignment: int
    vocabulary: int
    source: int
    target: int
    batch: int


def translation(vocabulary: int, length: int, batch: int = 128) -> Size:
    """Sentences such as Multi30k's."""
    return Size(
        name=f"sentences of {length}, {vocabulary} words, batch {batch}",
        width=256,
        embedding=256,
        alignment=256,
        vocabulary=vocabulary,
        source=length,
        target=length,
        batch=batch,
    )


SIZES = (
    Size(
        name="dates of 30 and 12 letters, batch 256",
        width=192,
        embedding=96,
        alignment=128,
        vocabulary=60,
        source=30,
        target=12,
        batch=256,
    ),
    Size(
        name="dates of 30 and 12 letters, batch 32",
        width=192,
        embedding=96,
        alignment=128,
        vocabulary=60,
        source=30,
        target=12,
        batch=32,
    ),
    translation(4000, 15),
    translation(4000, 30),
    translation(10_000, 15),
    translation(10_000, 30),
    translation(4000, 30, batch=16),
)


def ours(size: Size) -> nn.Module:
    """`rnnsearch`."""
    return RnnSearch(
        Config(
            source_vocabulary=size.vocabulary,
            target_vocabulary=size.vocabulary,
            width=size.width,
            embedding=size.embedding,
            readout=size.width // 2,
            alignment=size.alignment,
        )
    )


class Joey(nn.Module):
    """JoeyNMT's recurrent encoder and decoder."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        # Imported here, since it is not installed with regard; it asks for a backport of what Python has by now.
        sys.modules.setdefault("importlib_metadata", importlib.metadata)
        from joeynmt.decoders import RecurrentDecoder
        from joeynmt.encoders import RecurrentEncoder

        shared: dict[str, Any] = {"rnn_type": "gru", "emb_size": size.embedding, "hidden_size": size.width}
        self.source = nn.Embedding(size.vocabulary, size.embedding)
        self.target = nn.Embedding(size.vocabulary, size.embedding)
        self.encoder = RecurrentEncoder(**shared, num_layers=1, dropout=0.0, emb_dropout=0.0, bidirectional=True)
        self.decoder = RecurrentDecoder(
            **shared,
            encoder=self.encoder,
            attention="bahdanau",
            num_layers=1,
            vocab_size=size.vocabulary,
            init_hidden="bridge",
            input_feeding=True,
        )

    def forward(self, source: Tensor, length: Tensor, target: Tensor) -> Tensor:
        """The logits, as ours."""
        mask = (torch.arange(source.shape[1]) < length[:, None])[:, None]
        notes, state = self.encoder(self.source(source), length, mask)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        logits: Tensor = self.decoder(self.target(before), notes, state, mask, unroll_steps=target.shape[1])[0]
        return logits


def stepping(model: nn.Module, size: Size, precision: torch.dtype | None) -> Callable[[], None]:
    """One step of training, on a batch that is the same for every model."""
    numbers = torch.Generator().manual_seed(0)
    source, target = (
        torch.randint(4, size.vocabulary, (size.batch, length), generator=numbers)
        for length in (size.source, size.target)
    )
    length = torch.randint(size.source // 2, size.source + 1, (size.batch,), generator=numbers).sort(descending=True)[0]
    length[0] = size.source
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        with torch.autocast("cpu", precision) if precision else contextlib.nullcontext():
            logits = model(source, length, target)
            loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def measured(size: Size, precision: str, repeats: int) -> dict[str, Any]:
    """One row of the table."""
    torch.manual_seed(0)
    models = (ours(size), Joey(size))
    seconds = best(*(stepping(model, size, PRECISIONS[precision]) for model in models), repeats=repeats)
    tokens = size.batch * size.target
    return {
        **dataclasses.asdict(size),
        "precision": precision,
        "parameters": [sum(parameter.numel() for parameter in model.parameters()) for model in models],
        "tokens_per_second": [tokens / each for each in seconds],
        "ratio": seconds[1] / seconds[0],
    }


def setting() -> dict[str, Any]:
    """Where and with what it was measured."""
    cpu = next((line for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu.partition(':')[2].strip() or cpu}, {os.cpu_count()} CPUs, {platform.system()}",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "regard": importlib.metadata.version("regard"),
        "joeynmt": _version("joeynmt"),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _version(name: str) -> str:
    """The version of an installed package; one that only lies on the path has none to tell."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def main(words: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers there")
    parser.add_argument("--repeats", type=int, default=7, help="rounds in which the two take turns")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(words)
    torch.set_num_threads(options.threads)
    try:
        Joey(SIZES[0])
    except ImportError as fact:
        print(f"JoeyNMT cannot be imported ({fact}): pip install --no-deps joeynmt==2.3.0", file=sys.stderr)
        return 1
    where = setting()
    print(", ".join(f"{name} {value}" for name, value in where.items()) + "\n")
    print(f"{'':48}{'':10}{'parameters, M':>16}{'tokens a second':>18}{'ratio':>8}")
    print(f"{'':48}{'':10}{'ours':>8}{'Joey':>8}{'ours':>9}{'Joey':>9}")
    rows = []
    for size in SIZES:
        for precision in PRECISIONS:
            row = measured(size, precision, options.repeats)
            rows.append(row)
            sizes = "".join(f"{count / 1e6:8.2f}" for count in row["parameters"])
            speeds = "".join(f"{speed:9.0f}" for speed in row["tokens_per_second"])
            print(f"{size.name:48}{precision:10}{sizes}{speeds}{row['ratio']:8.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"setting": where, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
