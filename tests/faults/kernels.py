"""Faults of the kernels: a fast path that means something else, or forgets what the plain form sees to."""

from tests.faults.seeded import GRADIENTS, LAWS, Fault

KERNELS = "tests/contract/test_kernels.py"
ADDITIVE = "tests/core/test_additive.py"
COMPILING = "tests/core/test_compiling.py"
HEADS = "tests/core/test_heads.py"
LOCAL = "tests/core/test_local.py"

FAULTS = (
    Fault("additive: half a tangent", "core/additive.py", "r.mul_(-2).add_(1)", "r.mul_(-1).add_(1)", (LAWS,)),
    Fault(
        "additive: half a tangent, compiled",
        "core/additive.py",
        "vector.sum() - 2 * (r",
        "vector.sum() - (r",
        (ADDITIVE,),
    ),
    Fault(
        "additive: keys' slope without its second factor",
        "core/additive.py",
        "(slope[..., None] * r * (1 - r)).sum(1)",
        "(slope[..., None] * r).sum(1)",
        (ADDITIVE,),
    ),
    Fault(
        "additive: queries' slope by a difference of sums",
        "core/additive.py",
        "4 * (sloped * (1 - r)).sum(2)",
        "4 * (sloped.sum(2) - (sloped * r).sum(2))",
        (ADDITIVE,),
    ),
    Fault(
        "additive: exponentials of anything",
        "core/additive.py",
        "float(most) <= SAFE",
        "float(most) <= 1e30",
        (ADDITIVE,),
    ),
    Fault(
        "additive: tiles write over each other",
        "core/additive.py",
        "found[example] += t.square_()",
        "found[example] = t.square_()",
        (ADDITIVE,),
    ),
    Fault(
        "additive: the vector's gradient of one example",
        "core/additive.py",
        "values.sum((0, 1))",
        "values[0].sum(0)",
        (LAWS, GRADIENTS),
    ),
    Fault(
        "compiling: the switch does nothing",
        "core/compiling.py",
        'os.environ.get("REGARD_COMPILE", "1") == "0"',
        "False",
        (COMPILING,),
    ),
    Fault(
        "compiling: one size is taken for another", "core/compiling.py", "dynamic=True", "dynamic=False", (COMPILING,)
    ),
    Fault("fused: any square is causal", "core/fused.py", "cells.first == 0 and cells.rows", "cells.rows", (LAWS,)),
    Fault(
        "fused: wide values are cut",
        "core/fused.py",
        "found[..., :wide] if wide <",
        "found[..., :1] if wide <",
        (KERNELS,),
    ),
    Fault(
        "fused: a band ends one late",
        "core/fused.py",
        "right >= cells.column + cells.columns - 1",
        "right >= cells.column + cells.columns - 2",
        (LAWS,),
    ),
    Fault(
        "fused: a row of nothing is uniform",
        "core/fused.py",
        "torch.where(seen, scores, 0).softmax(-1), 0)",
        "torch.where(seen, scores, 0).softmax(-1), 1)",
        (KERNELS,),
    ),
    Fault(
        "banded: windows one key late",
        "core/banded.py",
        "number * cut.rows - cut.left\n",
        "number * cut.rows - cut.left + 1\n",
        (KERNELS,),
    ),
    Fault(
        "banded: gradients of neighbours fall on one block",
        "core/banded.py",
        "total[:, number : number + blocks,",
        "total[:, 0:blocks,",
        (KERNELS,),
    ),
    Fault(
        "banded: the last block counts as inside", "core/banded.py", "// cut.rows) + 1", "// cut.rows) + 2", (KERNELS,)
    ),
    Fault(
        "banded: every predicate repeats",
        "core/banded.py",
        "if period is None or cut.rows % period:",
        "if cut.rows % (period or 1):",
        (KERNELS,),
    ),
    Fault(
        "biased: rows stay turned round", "core/biased.py", "found.flip(-2) if bed.turned else found", "found", (LAWS,)
    ),
    Fault(
        "biased: a tile's offsets from its row alone",
        "core/biased.py",
        "start = tile[0].start + tile[1].start",
        "start = tile[0].start",
        (KERNELS,),
    ),
    Fault(
        "biased: a slope without its row's mean",
        "core/biased.py",
        "weights * (other - each[..., None])",
        "weights * other",
        (LAWS, GRADIENTS),
    ),
    Fault(
        "biased: a bias shared by examples learns from the last",
        "core/biased.py",
        "steep_mask[under] += steep if",
        "steep_mask[under] = steep if",
        (KERNELS,),
    ),
    Fault(
        "biased: gradients of the parameters that are there now",
        "core/bed.py",
        "functional_call(run, own, arguments) if own else run(*arguments)",
        "run(*arguments)",
        (GRADIENTS,),
    ),
    Fault(
        "bed: a tile ends one key early",
        "core/bed.py",
        "first + bottom + right, end)",
        "first + bottom + right - 1, end)",
        (KERNELS,),
    ),
    Fault(
        "bed: the band is forgotten",
        "core/bed.py",
        "torch.where(offset <= right, total, -torch.inf)",
        "total",
        (KERNELS,),
    ),
    Fault("tiled: a part stands at the beginning", "core/cells.py", "row=self.row + top,", "row=self.row,", (KERNELS,)),
    Fault(
        "tiled: made again from the parameters that are there now",
        "core/tiled.py",
        "functional_call(run, dict(zip(learned, tensors, strict=True)), (tile,))",
        "run(tile)",
        (KERNELS,),
    ),
    Fault(
        "tiled: a change in between goes unseen",
        "core/tiled.py",
        "if used[name]._version != version:",
        "if False:",
        (KERNELS,),
    ),
    Fault(
        "dispatch: keys are not looked at",
        "core/dispatch.py",
        "unseen = [call.query, key]",
        "unseen = [call.query]",
        (LAWS,),
    ),
    Fault(
        "dispatch: the output is not looked at",
        "core/dispatch.py",
        "            found = kernel.run(trusted(call))\n            if has_finite_sum(found):\n                return found\n",
        "            return kernel.run(trusted(call))\n",
        (KERNELS, LAWS),
    ),
    Fault(
        "dispatch: dropout goes unheard",
        "core/dispatch.py",
        "is None and not call.dropout and not",
        "is None and not",
        (HEADS,),
    ),
    Fault("dispatch: a factor goes unheard", "core/dispatch.py", "call.after is None and not", "not", (LOCAL,)),
    Fault(
        "offsets: the diagonal next to it",
        "core/offsets.py",
        "functional.pad(cells, (0, rows))",
        "functional.pad(cells, (1, rows - 1))",
        (GRADIENTS,),
    ),
)
