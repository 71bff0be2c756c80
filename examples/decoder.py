"""A two-layer decoder with grouped heads, rotary positions and a cache.

Training runs `model(tokens)`; decoding runs the same modules step by step with a cache for each layer, and
gives the same logits. Nothing in the model knows which of the two it is doing, but for the cache it is given.

    python examples/decoder.py
"""

import torch
from torch import Tensor, nn

from regard import Cache, Heads, Rotary, causal

VOCABULARY, WIDTH, HEADS, KEY_HEADS, LAYERS, LONGEST = 17, 32, 4, 2, 2, 24


class Block(nn.Module):
    """Pre-norm: each part reads the norm of the stream and adds to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = Heads(WIDTH, HEADS, key_heads=KEY_HEADS, where=causal, position=Rotary(WIDTH // HEADS))
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, stream: Tensor, cache: Cache | None = None) -> Tensor:
        """(batch, m, width) → the same."""
        stream = stream + self.heads(self.norms[0](stream), cache=cache)
        return stream + self.feed(self.norms[1](stream))


class Decoder(nn.Module):
    """Tokens to logits of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, tokens: Tensor, caches: list[Cache] | None = None) -> Tensor:
        """(batch, m) → (batch, m, vocabulary)."""
        stream = self.embed(tokens)
        for place, block in enumerate(self.blocks):
            stream = block(stream, None if caches is None else caches[place])
        return self.norm(stream) @ self.embed.weight.T

    def caches(self, batch: int) -> list[Cache]:
        """An empty cache for each layer."""
        return [block.heads.cache(batch, longest=LONGEST) for block in self.blocks]


@torch.no_grad()
def continued(model: Decoder, prompt: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Greedy continuation with caches: the tokens, and the logits that chose them."""
    caches = model.caches(len(prompt))
    logits = [model(prompt, caches)[:, -1]]
    tokens = [prompt]
    for _ in range(steps):
        tokens.append(logits[-1].argmax(-1, keepdim=True))
        logits.append(model(tokens[-1], caches)[:, -1])
    return torch.cat(tokens, 1), torch.stack(logits, 1)


def train(steps: int = 600) -> Decoder:
    """Learns to count: every token is the one before plus a stride that the line keeps."""
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        start, stride = torch.randint(0, VOCABULARY, (2, 32, 1))
        line = (start + stride * torch.arange(12)) % VOCABULARY
        logits = model(line[:, :-1])
        loss = nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), line[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
    return model.eval()


def compare(model: Decoder) -> float:
    """The largest difference between cached logits and those of one whole pass."""
    prompt = torch.tensor([[3, 5, 7], [16, 15, 14]])
    tokens, logits = continued(model, prompt, steps=9)
    whole = model(tokens)[:, 2:]
    for line in tokens.tolist():
        print(*line)
    return (whole - logits).abs().max().item()


if __name__ == "__main__":
    print(f"cached and whole logits differ by {compare(train()):.1e}")
