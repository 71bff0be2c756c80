"""The faults: what a hurried hand or a well-meant change might do to the code."""

import dataclasses

LAWS = "tests/contract/test_laws.py"
GRADIENTS = "tests/contract/test_gradients.py"
NUMBERS = "tests/contract/test_numbers.py"
ERRORS = "tests/core/test_errors.py"
HEADS = "tests/core/test_heads.py"
POSITIONS = "tests/core/test_positions.py"
LOCAL = "tests/core/test_local.py"
ADDRESSING = "tests/core/test_addressing.py"
CHOICE = "tests/core/test_choice.py"
PREPARED = "tests/core/test_prepared.py"
REGISTRY = "tests/contract/test_registry.py"


@dataclasses.dataclass(frozen=True)
class Fault:
    """One text of one file, replaced by another; and the tests of which one must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "causal sees one too far",
        "core/where.py",
        "cells.column_position <= cells.row_position",
        "cells.column_position <= cells.row_position + 1",
        (LAWS,),
    ),
    Fault(
        "causal does not see itself",
        "core/where.py",
        "cells.column_position <= cells.row_position",
        "cells.column_position < cells.row_position",
        (LAWS,),
    ),
    Fault(
        "window one short on the left",
        "core/where.py",
        "distance >= -self.left if",
        "distance > -self.left if",
        (LAWS,),
    ),
    Fault(
        "window open on the right",
        "core/where.py",
        "return before & (distance <= self.right) if",
        "return before if",
        (LAWS,),
    ),
    Fault(
        "blocks counted from one",
        "core/where.py",
        "cells.row_position // self.size ==",
        "(cells.row_position + 1) // self.size ==",
        (LAWS,),
    ),
    Fault(
        "length sees its own end",
        "core/where.py",
        "cells.column_position < self.tensor[..., None, None]",
        "cells.column_position <= self.tensor[..., None, None]",
        (LAWS,),
    ),
    Fault(
        "or turned into and",
        "core/where.py",
        "self.left.allowed(cells) | self.right.allowed(cells)",
        "self.left.allowed(cells) & self.right.allowed(cells)",
        (LAWS,),
    ),
    Fault(
        "and forgets its right side",
        "core/where.py",
        "self.left.allowed(cells) & self.right.allowed(cells)",
        "self.left.allowed(cells)",
        (LAWS,),
    ),
    Fault(
        "mask polarity turned round",
        "core/where.py",
        '        cells.fit(self.mask.shape, ("m", "n"), "the mask given")\n        return cells.cut(self.mask)',
        '        cells.fit(self.mask.shape, ("m", "n"), "the mask given")\n        return ~cells.cut(self.mask)',
        (LAWS,),
    ),
    Fault(
        "a predicate has a truth value",
        "core/where.py",
        '        raise TypeError(f"{self!r} has no truth value: compose predicates with &, | and ~, not with and, or and not")',
        "        return True",
        (ERRORS,),
    ),
    Fault(
        "position of the first query ignored",
        "core/cells.py",
        "return (steps + self.first)[:, None]",
        "return steps[:, None]",
        (LAWS,),
    ),
    Fault("any batch axes line up", "core/cells.py", "if axes not in (0, len(self.batch)) or", "if", (ERRORS,)),
    Fault(
        "no scale",
        "core/compare.py",
        "max(query.shape[-1], 1) ** -0.5",
        "1.0",
        (LAWS,),
    ),
    Fault(
        "scale by the number of keys",
        "core/compare.py",
        "max(query.shape[-1], 1) ** -0.5",
        "max(key.shape[-2], 1) ** -0.5",
        (LAWS,),
    ),
    Fault(
        "general transposed",
        "core/compare.py",
        "return key @ self.weight.mT\n\n    def check(self, query_width: int, key_width: int, cells: Cells) -> None:\n        check_width(repr(self)",
        "return key @ self.weight.mT * 2\n\n    def check(self, query_width: int, key_width: int, cells: Cells) -> None:\n        check_width(repr(self)",
        (LAWS,),
    ),
    Fault(
        "additive without tanh",
        "core/compare.py",
        "torch.tanh(asked[..., :, None, :] + key[..., None, :, :]) @ self.vector",
        "(asked[..., :, None, :] + key[..., None, :, :]) @ self.vector",
        (LAWS,),
    ),
    Fault(
        "cosine of the key's length only",
        "core/compare.py",
        "return Sides(direction(query), key, self.strength)",
        "return Sides(query, key, self.strength)",
        (LAWS,),
    ),
    Fault(
        "a vector of zeros divided by its length",
        "core/compare.py",
        "vectors / torch.where(largest > 0, largest, 1)",
        "vectors / largest",
        (ADDRESSING,),
    ),
    Fault(
        "location from the last rows",
        "core/compare.py",
        "self.weight[cells.column : cells.column + cells.columns]",
        "self.weight[-cells.columns :]",
        (LAWS,),
    ),
    Fault(
        "alibi without direction of slope",
        "core/bias.py",
        "return -slope[:, None, None] * distance",
        "return slope[:, None, None] * distance",
        (LAWS,),
    ),
    Fault(
        "alibi slopes of all heads alike",
        "core/bias.py",
        "exponents + extra[: heads - power]",
        "[exponents[0]] * heads",
        (LAWS,),
    ),
    Fault(
        "relative offset turned round",
        "core/bias.py",
        "self.bucket(cells.column_position - cells.row_position)",
        "self.bucket(cells.row_position - cells.column_position)",
        (LAWS,),
    ),
    Fault(
        "grid offset turned round",
        "core/bias.py",
        "i // self.width - j // self.width + self.height",
        "j // self.width - i // self.width + self.height",
        (LAWS,),
    ),
    Fault(
        "softcap forgets its factor",
        "core/score.py",
        "return self.limit * torch.tanh(inner / self.limit)",
        "return torch.tanh(inner / self.limit)",
        (LAWS,),
    ),
    Fault(
        "a sum forgets its last term", "core/score.py", "for part in parts[1:]:", "for part in parts[1:-1]:", (LAWS,)
    ),
    Fault(
        "what is not finite is multiplied by 0",
        "core/score.py",
        "return sound, torch.where(sound[..., None], vectors, 0)",
        "return sound, vectors * sound[..., None]",
        (LAWS,),
    ),
    Fault(
        "a hidden key marks its row",
        "core/plain.py",
        "finite & allowed, seen & allowed, broken & allowed",
        "finite & allowed, seen & allowed, broken",
        (LAWS,),
    ),
    Fault(
        "what is not finite and seen goes unmarked",
        "core/plain.py",
        "result = result + nan_where(unsound, value)",
        "result = result + 0",
        (LAWS,),
    ),
    Fault(
        "softmax over the queries",
        "core/weigh.py",
        "return self._closed(scores, open_cells).softmax(-1)",
        "return self._closed(scores, open_cells).softmax(-2)",
        (LAWS,),
    ),
    Fault(
        "an empty row is uniform",
        "core/weigh.py",
        "return torch.where(open_cells, self.over(scores, open_cells), 0)",
        "return self.over(scores, open_cells)",
        (LAWS,),
    ),
    Fault(
        "a mask of large negative scores",
        "core/weigh.py",
        "inside = torch.where(open_cells, scores, -torch.inf)",
        "inside = scores",
        (LAWS,),
    ),
    Fault(
        "sparsemax's threshold from one key too many",
        "core/weigh.py",
        "last = holds.sum(-1, keepdim=True).clamp_min(1) - 1",
        "last = holds.sum(-1, keepdim=True).clamp(1, holds.shape[-1] - 1)",
        (LAWS,),
    ),
    Fault("entmax without its Newton steps", "core/weigh.py", "for _ in range(2):", "for _ in range(0):", (GRADIENTS,)),
    Fault("entmax with one Newton step", "core/weigh.py", "for _ in range(2):", "for _ in range(1):", (GRADIENTS,)),
    Fault(
        "entmax's threshold without gradient",
        "core/weigh.py",
        "threshold = mean - ((1 - spread) / size).sqrt()",
        "threshold = (mean - ((1 - spread) / size).sqrt()).detach()",
        (GRADIENTS,),
    ),
    Fault(
        "hardmax at the last of equals",
        "core/weigh.py",
        "best = torch.where(open_cells, scores, -torch.inf).argmax(-1, keepdim=True)",
        "best = torch.where(open_cells, scores, -torch.inf).argmin(-1, keepdim=True)",
        (LAWS,),
    ),
    Fault(
        "weights normalised in half precision",
        "core/plain.py",
        "single = at_least_single(raw.dtype)",
        "single = raw.dtype",
        (NUMBERS,),
    ),
    Fault(
        "after is normalised again",
        "core/plain.py",
        "    if call.dropout:\n",
        "    if factor is not None:\n        applied = applied / applied.sum(-1, keepdim=True).clamp_min(1e-30)\n    if call.dropout:\n",
        (LOCAL,),
    ),
    Fault(
        "dropout without its scale",
        "core/plain.py",
        "applied = applied * kept / (1 - call.dropout)",
        "applied = applied * kept",
        (HEADS,),
    ),
    Fault(
        "dropout ignores its generator",
        "core/plain.py",
        ".bernoulli_(1 - call.dropout, generator=call.generator)",
        ".bernoulli_(1 - call.dropout)",
        (HEADS,),
    ),
    Fault(
        "keys prepared by another score",
        "core/operation.py",
        "key.score is not score:",
        "type(key.score) is not type(score):",
        (PREPARED,),
    ),
    Fault("σ = D", "core/local.py", "Gaussian(centre, self.distance / 2)", "Gaussian(centre, self.distance)", (LOCAL,)),
    Fault(
        "Gaussian around the rounded centre",
        "core/local.py",
        "Gaussian(centre, self.distance / 2)",
        "Gaussian(centre.floor(), self.distance / 2)",
        (LOCAL,),
    ),
    Fault(
        "centre from the padded length",
        "core/local.py",
        "            length = length[..., None]\n",
        "            length = length.max()\n",
        (LOCAL,),
    ),
    Fault(
        "window around the real centre",
        "core/local.py",
        "cells.cut_rows(self.centre.detach()).floor()",
        "cells.cut_rows(self.centre.detach())",
        (LOCAL,),
    ),
    Fault(
        "shift reversed", "core/addressing.py", "weights.roll(offset, -1)", "weights.roll(-offset, -1)", (ADDRESSING,)
    ),
    Fault(
        "gate turned round",
        "core/addressing.py",
        "gate[..., None] * content + (1 - gate[..., None]) * previous",
        "gate[..., None] * previous + (1 - gate[..., None]) * content",
        (ADDRESSING,),
    ),
    Fault(
        "sharpening by a power",
        "core/addressing.py",
        "    positive = weights > 0\n",
        "    raised = weights ** sharpness[..., None]\n    return raised / raised.sum(-1, keepdim=True)\n    positive = weights > 0\n",
        (ADDRESSING,),
    ),
    Fault(
        "rotation the wrong way",
        "core/positions.py",
        "turned = torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)",
        "turned = torch.cat([a * cosine + b * sine, b * cosine - a * sine], -1)",
        (POSITIONS,),
    ),
    Fault(
        "rotary angles in single precision",
        "core/positions.py",
        'working = torch.float32 if vectors.device.type == "mps" else torch.float64',
        "working = torch.float32",
        (POSITIONS,),
    ),
    Fault(
        "positions start at one",
        "core/positions.py",
        'return steps + whole(first, "first")',
        'return steps + whole(first, "first") + 1',
        (POSITIONS,),
    ),
    Fault(
        "sines after cosines",
        "core/positions.py",
        "torch.cat([sine, cosine], -1)",
        "torch.cat([cosine, sine], -1)",
        (POSITIONS,),
    ),
    Fault(
        "grouped heads in turn",
        "core/heads.py",
        "keys.repeat_interleave(groups, dim=-3)",
        "torch.cat([keys] * groups, dim=-3)",
        (HEADS,),
    ),
    Fault(
        "cached keys without their position",
        "core/heads.py",
        "            keys = self._keys(source, at if key is None else 0)",
        "            keys = self._keys(source, 0)",
        (HEADS,),
    ),
    Fault(
        "a cache written in place under a gradient",
        "core/cache.py",
        "if torch.is_grad_enabled() and (new.requires_grad or storage.requires_grad):",
        "if False:",
        (HEADS,),
    ),
    Fault(
        "looking extends the cache",
        "core/heads.py",
        "keys = torch.cat([cache.key, keys], -2)",
        "keys, _ = cache.extend(keys, self._values(query))",
        (HEADS,),
    ),
    Fault(
        "heads project what is not finite",
        "core/heads.py",
        "mapped = cast(Tensor, layer(clean))",
        "mapped = cast(Tensor, layer(vectors))",
        (HEADS,),
    ),
    Fault(
        "dropout in evaluation",
        "core/heads.py",
        "dropout = self.dropout if self.training else 0.0",
        "dropout = self.dropout",
        (HEADS,),
    ),
    Fault(
        "a choice without noise",
        "core/choice.py",
        "return log_p - noise.clamp_min(torch.finfo(log_p.dtype).tiny).log()",
        "return log_p",
        (CHOICE,),
    ),
    Fault("noise of the wrong sign", "core/choice.py", "return log_p - noise", "return log_p + noise", (CHOICE,)),
    Fault(
        "log-probability without gradient",
        "core/choice.py",
        "log_probability=(torch.where(some, log_p, 0).gather",
        "log_probability=(torch.where(some, log_p, 0).detach().gather",
        (CHOICE,),
    ),
    Fault(
        "entropy of the wrong sign",
        "core/choice.py",
        "return -(torch.where(possible, log_p.exp(), 0) * log_p)",
        "return (torch.where(possible, log_p.exp(), 0) * log_p)",
        (CHOICE,),
    ),
    Fault(
        "straight through passes nothing",
        "core/choice.py",
        "_one_hot(index, log_p) + (soft - soft.detach())",
        "_one_hot(index, log_p)",
        (CHOICE,),
    ),
    Fault(
        "a public name without a test",
        "__init__.py",
        '*("dot", "scaled_dot", "Additive",',
        '*("dot", "Dot", "scaled_dot", "Additive",',
        (REGISTRY,),
    ),
)
