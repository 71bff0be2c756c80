"""`regard.watch`: the core's watch, and an adapter for each library whose modules can be seen too."""

import contextlib
from collections.abc import Iterator

from torch import nn

from regard.adapters import hugging_face, torch_heads
from regard.core.seen import Seen
from regard.core.watch import watching


@contextlib.contextmanager
def watch(model: nn.Module) -> Iterator[Seen]:
    """Records where every attention inside a model looks, while the model runs in the block.

    What is kept are references to queries, keys, values and choices. Weights are computed when they are asked for,
    during the block or after it, for what is asked, and are the weights as applied, before dropout, within rounding
    of the kernel. Outputs are the same bits as without. A reference whose tensor has been changed in place since is
    refused; of a tensor made in inference mode, a copy is taken.

    An attention has the name of its module in the model; in the model itself it is "attention". A module that the
    model holds under two names has the first. Seen are the model's own calls in this thread, and not those of a copy.
    Left out are calls inside of `torch.compile` and of `torch.func`, and those that activation checkpointing repeats
    in the backward pass.

    It sees what calls `regard.attend`, PyTorch's `nn.MultiheadAttention`, and Hugging Face models with their default
    attention, "sdpa". In evaluation without gradients, PyTorch's encoder layers take a fused path that shows nothing.
    It is switched off in the block, for the process, where the model has such a layer: the outputs are then the same
    bits as with `torch.backends.mha.set_fastpath_enabled(False)`.

    Args:
        model: The model, or a part of one; names start there.

    Raises:
        TypeError: if it is not a module.
        ValueError: if a module of it is compiled.

    >>> import torch, regard
    >>> model = torch.nn.Sequential(regard.Heads(8, 2), regard.Heads(8, 4, where=regard.causal))
    >>> with regard.watch(model) as seen:
    ...     output = model(torch.randn(3, 5, 8))
    >>> seen.names
    ('0', '1')
    >>> seen["1"].weights(example=0).shape
    torch.Size([4, 5, 5])
    >>> seen["1"].weights(example=2, head=3, rows=0)
    tensor([1., 0., 0., 0., 0.])
    """
    with watching(model) as open_watch, torch_heads.seen_by(open_watch), hugging_face.seen_by(open_watch):
        yield open_watch.seen
