"""The Transformer parts of lessons 05 and 06, each readable in one sitting, built on `MultiHeadAttention`."""

import torch
from torch import nn

from utils.attention import MultiHeadAttention
from utils.checks import check_token_ids
from utils.masks import create_causal_mask, create_padding_mask
from utils.tasks import BOS, EOS, PAD


def sinusoidal_positions(length, d_model):
    """A vector for each position: sines and cosines of wavelengths that grow from 2 pi towards 10000 times as much.

    Built in lesson 05. Source: Vaswani et al. 2017, Attention Is All You Need, section 3.5.

    Args:
        length: number of positions.
        d_model: features of a position.

    Returns:
        (length, d_model); features 2i and 2i + 1 are the sine and the cosine of position / 10000^(2i / d_model).
    """
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model / 2, rounded up)
    angles = torch.arange(length).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class TokenEmbedding(nn.Module):
    """What a token is plus where it stands: a vector for its id and one for its position.

    Built in lesson 05.

    Args:
        vocabulary_size: number of token ids.
        d_model: features of a token.
        max_len: number of positions.
        positions: "sinusoidal"; "learned", one parameter vector a position; or "none".

    Raises:
        ValueError: unknown `positions`.
    """

    def __init__(self, vocabulary_size, d_model, max_len, positions="sinusoidal"):
        super().__init__()
        self.token, self.max_len = nn.Embedding(vocabulary_size, d_model), max_len
        if positions == "learned":
            self.position = nn.Parameter(torch.randn(max_len, d_model))
        elif positions in ("sinusoidal", "none"):
            known = sinusoidal_positions(max_len, d_model) * (positions != "none")
            self.register_buffer("position", known, persistent=False)
        else:
            raise ValueError(f"positions={positions!r}; expected 'sinusoidal', 'learned' or 'none'")

    def forward(self, token_ids, start=0):
        """Embed token ids (B, T), the first of which stands at position `start`.

        Returns:
            (B, T, d_model).

        Raises:
            TypeError: token ids that are not integers.
            ValueError: token ids that are not (B, T) or not in the vocabulary, a negative `start`, or a position beyond
                the last.
        """
        check_token_ids("token_ids", token_ids, self.token.num_embeddings)
        if token_ids.dim() != 2 or start < 0:
            raise ValueError(
                f"token_ids has shape {tuple(token_ids.shape)} and start={start}; expected (B, T) and 0 or more"
            )
        end = start + token_ids.size(1)
        if end > self.max_len:
            raise ValueError(f"token_ids reach up to position {end - 1}, but max_len={self.max_len}")
        return self.token(token_ids) + self.position[start:end]


class FeedForward(nn.Sequential):
    """Two layers for every token by itself, d_model -> d_ff -> d_model. Source: Vaswani et al. 2017, section 3.3."""

    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward layer. Each adds to its input, which it sees normalised.

    Built in lesson 05. Sources: Vaswani et al. 2017, section 3.1; the norm stands before each layer, as in Xiong et al.
    2020, On Layer Normalization in the Transformer Architecture, and not after it.
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, mask=None, past=None):
        """Let every token look at the tokens that the mask allows.

        Args:
            x: (B, T, d_model), the tokens.
            mask: as for `MultiHeadAttention`, over the tokens before and these.
            past: keys and values of the tokens before, as this returned them; None where there are none.

        Returns:
            output (B, T, d_model), weights (B, H, T, T_k), and the keys and values of all T_k tokens so far.
        """
        normed = self.attention_norm(x)
        so_far = _extended(past, self.attention.keys_and_values(normed, normed))
        found, weights = self.attention.attend(normed, *so_far, mask)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x)), weights, so_far


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the encoder's output, then a feed-forward layer, as in `EncoderBlock`.

    Built in lesson 06. Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_norm, self.cross_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, causal_mask, source_mask, past=None):
        """Let every token look at those before it, then at the source.

        Args:
            x: (B, T, d_model), the target's tokens.
            memory: keys and values of the source, as `cross_attention.keys_and_values` gives them.
            causal_mask: (T, T_k), over the target's tokens before and these.
            source_mask: (B, 1, S), True where the source has a token.
            past: keys and values of the target's tokens before; None where there are none.

        Returns:
            output (B, T, d_model), the weights of both attentions, (B, H, T, T_k) and (B, H, T, S), and the keys and
            values of all T_k tokens so far.
        """
        normed = self.self_norm(x)
        so_far = _extended(past, self.self_attention.keys_and_values(normed, normed))
        found, causal_weights = self.self_attention.attend(normed, *so_far, causal_mask)
        x = x + found
        found, cross_weights = self.cross_attention.attend(self.cross_norm(x), *memory, source_mask)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x)), causal_weights, cross_weights, so_far


def _extended(past, new):
    """Keys and values of the tokens before with those of new tokens behind them."""
    return new if past is None else tuple(torch.cat(pair, dim=2) for pair in zip(past, new, strict=True))


def _remembered(cache, blocks):
    """How many tokens a cache holds, and the keys and values of each block: none where it is empty or None."""
    return (cache[0][0].size(2), cache) if cache else (0, [None] * blocks)


class CausalLanguageModel(nn.Module):
    """A small GPT: says at every position which token comes next, and sees only what stands before.

    Built in lesson 05. Source: Radford et al. 2018, Improving Language Understanding by Generative Pre-Training; with
    the norm before each layer, as in Radford et al. 2019.

    Args:
        vocabulary_size: number of token ids.
        d_model, num_heads, d_ff, num_layers: sizes of the blocks, and how many.
        max_len: the most positions.
        make_mask: function (T_q, T_k) -> the mask; lesson 05 tries a leaky one.
    """

    def __init__(self, vocabulary_size, d_model, num_heads, d_ff, num_layers, max_len=64, make_mask=create_causal_mask):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary_size, d_model, max_len, "learned")
        self.blocks = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm, self.output = nn.LayerNorm(d_model), nn.Linear(d_model, vocabulary_size)
        self.make_mask = make_mask

    def forward(self, token_ids, cache=None):
        """Predict the next token at each position.

        Args:
            token_ids: (B, T), the tokens, or with a cache only those that come after the cached ones.
            cache: a list that holds keys and values of each block; filled on the first call, extended by the next.

        Returns:
            logits: (B, T, vocabulary_size).
        """
        start, pasts = _remembered(cache, len(self.blocks))
        x = self.embedding(token_ids, start)
        mask = self.make_mask(token_ids.size(1), start + token_ids.size(1)).to(token_ids.device)
        so_far = []
        for block, past in zip(self.blocks, pasts, strict=True):
            x, _, keys_and_values = block(x, mask, past)
            so_far.append(keys_and_values)
        if cache is not None:
            cache[:] = so_far
        return self.output(self.norm(x))

    @torch.no_grad()
    def generate(self, token_ids, steps, use_cache=True, temperature=0.0, generator=None):
        """Write on: again and again the next token is chosen and appended.

        Args:
            token_ids: (B, T), the beginning; at least one token.
            steps: how many tokens are appended.
            use_cache: whether keys and values of earlier tokens are kept, or computed anew at every step.
            temperature: 0 takes the likeliest token; above it, tokens are drawn from softmax(logits / temperature).
            generator: of the draws.

        Returns:
            (B, T + steps).

        Raises:
            ValueError: no token to begin with, or a negative temperature.
        """
        if token_ids.size(-1) == 0 or temperature < 0:
            raise ValueError(
                f"token_ids has shape {tuple(token_ids.shape)} and temperature={temperature}; expected at least one "
                "token and 0 or more"
            )
        cache = [] if use_cache else None
        seen = token_ids
        for _ in range(steps):
            logits = self(seen if use_cache else token_ids, cache)[:, -1]
            if temperature == 0:
                seen = logits.argmax(dim=-1, keepdim=True)
            else:
                seen = torch.softmax(logits / temperature, dim=-1).multinomial(1, generator=generator)
            token_ids = torch.cat([token_ids, seen], dim=1)
        return token_ids


class Translator(nn.Module):
    """A small Transformer encoder-decoder, called as `Seq2Seq` is.

    Built in lesson 06. Source: Vaswani et al. 2017; with the norm before each layer.

    Args:
        source_size, target_size: number of token ids of either language.
        d_model, num_heads, d_ff, num_layers: sizes of the blocks, and how many on either side.
        max_len: the most positions of a sentence.
    """

    def __init__(self, source_size, target_size, d_model, num_heads, d_ff, num_layers, max_len=96):
        super().__init__()
        self.source_embedding = TokenEmbedding(source_size, d_model, max_len)
        self.target_embedding = TokenEmbedding(target_size, d_model, max_len)
        self.encoder = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, target_size)

    def encode(self, source):
        """Keys and values of the source for each block of the decoder, and the mask of its padding (B, 1, S)."""
        check_token_ids("source", source, self.source_embedding.token.num_embeddings)
        mask = create_padding_mask(source, PAD)
        x = self.source_embedding(source)
        for block in self.encoder:
            x, _, _ = block(x, mask)
        x = self.encoder_norm(x)
        return [block.cross_attention.keys_and_values(x, x) for block in self.decoder], mask

    def decode(self, decoder_input, memory, source_mask, cache=None):
        """The decoder's part of `forward`.

        Args:
            decoder_input: (B, T), or with a cache only the tokens after the cached ones.
            memory, source_mask: as `encode` gives them.
            cache: as for `CausalLanguageModel.forward`.

        Returns:
            logits (B, T, target_size), and the weights of each block's two attentions.
        """
        check_token_ids("decoder_input", decoder_input, self.target_embedding.token.num_embeddings)
        start, pasts = _remembered(cache, len(self.decoder))
        x = self.target_embedding(decoder_input, start)
        causal_mask = create_causal_mask(decoder_input.size(1), start + decoder_input.size(1), x.device)
        so_far, maps = [], []
        for block, of_block, past in zip(self.decoder, memory, pasts, strict=True):
            x, causal, cross, keys_and_values = block(x, of_block, causal_mask, source_mask, past)
            so_far.append(keys_and_values)
            maps.append((causal, cross))
        if cache is not None:
            cache[:] = so_far
        return self.output(self.decoder_norm(x)), maps

    def forward(self, source, decoder_input):
        """The logits (B, T, target_size) at every position of a target that is given, as `Seq2Seq.forward`."""
        return self.decode(decoder_input, *self.encode(source))[0]

    @torch.no_grad()
    def greedy(self, source, max_len=80):
        """Translate, taking the likeliest token at each step, as `Seq2Seq.greedy`.

        Returns:
            token_ids: (B, T), PAD after EOS.
            weights: (B, T, S), the cross-attention of the last block, averaged over its heads.

        Raises:
            ValueError: `max_len` below 1, or more than there are positions.
        """
        if not 1 <= max_len <= self.target_embedding.max_len:
            raise ValueError(
                f"max_len={max_len}; expected 1 to {self.target_embedding.max_len}, the positions there are"
            )
        memory, mask = self.encode(source)
        token_ids = torch.full((source.size(0), 1), BOS, device=source.device)
        done = torch.zeros_like(token_ids, dtype=torch.bool)
        cache, made, looked = [], [], []
        for _ in range(max_len):
            logits, maps = self.decode(token_ids, memory, mask, cache)
            token_ids = logits.argmax(dim=-1).masked_fill(done, PAD)
            made.append(token_ids)
            looked.append(maps[-1][1].mean(dim=1))
            done = done | (token_ids == EOS)
            if done.all():
                break
        return torch.cat(made, dim=1), torch.cat(looked, dim=1)
