"""The models of the lessons, each readable in one sitting."""

from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from utils.checks import check_token_ids
from utils.masks import create_padding_mask
from utils.tasks import BOS, EOS, PAD


class Encoder(nn.Module):
    """A GRU over the source. Padding is never read, in batches of any order.

    Built in lesson 01; in both directions in lesson 02.

    Args:
        vocabulary_size: number of token ids.
        embed_dim: features of an embedding.
        hidden_dim: features of the state in each direction.
        bidirectional: whether a second GRU reads from the end to the beginning.
    """

    def __init__(self, vocabulary_size, embed_dim, hidden_dim, bidirectional=False):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embed_dim, padding_idx=PAD)
        self.gru = nn.GRU(embed_dim, hidden_dim, batch_first=True, bidirectional=bidirectional)
        self.state_dim = hidden_dim * (2 if bidirectional else 1)

    def forward(self, source):
        """Read token ids.

        Args:
            source: (B, S), padded with PAD at the end; no sentence is empty.

        Returns:
            states: (B, S, state_dim), the state at each token, zero at padding. Of two directions, side by side.
            final: (B, state_dim), the last state of each direction.

        Raises:
            TypeError: token ids that are not integers.
            ValueError: a token id outside of the vocabulary, a sentence of padding only, or a token after padding.
        """
        check_token_ids("source", source, self.embedding.num_embeddings)
        lengths, embedded = _lengths(source), self.embedding(source)
        if (lengths == source.size(1)).all():  # nothing is padding, and an unpacked batch is read faster
            states, final = self.gru(embedded)  # final: (directions, B, hidden_dim)
        else:
            # Packed, so that the direction from the end starts at the last word and not in the padding.
            packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, final = self.gru(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        return states, torch.cat(list(final), dim=-1)


def _lengths(source):
    """The number of tokens of each sentence (B,), once padding is seen to come at the end only."""
    if source.dim() != 2:
        raise ValueError(f"source has shape {tuple(source.shape)}; expected token ids (B, S)")
    lengths = (source != PAD).sum(dim=1)
    if (lengths == 0).any():
        raise ValueError(f"source has no token in sentence {int((lengths == 0).nonzero()[0])}; expected at least one")
    before_end = torch.arange(source.size(1), device=source.device) < lengths.unsqueeze(1)
    if ((source == PAD) & before_end).any():
        raise ValueError("source has padding before a token; expected it at the end only")
    return lengths


def bahdanau_step(embedded, state, keys, cell, attention):
    """One step of the decoder of Bahdanau et al. 2015: look first, with the state as it was, then move on.

    Built in lesson 02. Source: their section 3.1 and appendix A.2.2.

    Args:
        embedded: (B, embed_dim), the token that came last.
        state: (B, decoder_dim), the previous state.
        keys: (B, S, state_dim), the states of the encoder.
        cell: function (input (B, embed_dim + state_dim), state) -> the next state.
        attention: function (query, keys) -> context (B, state_dim), weights (B, S).

    Returns:
        The new state, the context and the weights.
    """
    context, weights = attention(state, keys)
    state = cell(torch.cat([embedded, context], dim=-1), state)
    return state, context, weights


def luong_step(embedded, state, keys, cell, attention):
    """One step of the decoder of Luong et al. 2015: move on first, then look, with the new state.

    Built in lesson 02. Source: their section 3. Arguments and results as of `bahdanau_step`, but `cell` takes
    `embedded` alone: what was found goes to the output, not into the state. Their input feeding is left out.
    """
    state = cell(embedded, state)
    context, weights = attention(state, keys)
    return state, context, weights


class Seq2Seq(nn.Module):
    """A GRU encoder-decoder: one fixed vector between the two, or attention over all states of the encoder.

    Built in lessons 01 and 02. Sources: Sutskever et al. 2014 (without attention, there with an LSTM); Bahdanau et
    al. 2015; Luong et al. 2015. Their further layers between state and output, and Luong's input feeding, are left out.

    Args:
        encoder: an Encoder.
        target_size: number of token ids of the target.
        embed_dim: features of an embedding of the target.
        decoder_dim: features of the decoder's state.
        attention: None, or a module called as `AdditiveAttention` is, from queries of `decoder_dim` to keys of
            `encoder.state_dim`.
        asks: which state of the decoder is the query: "current", as in `luong_step`, or "previous", as in
            `bahdanau_step`.

    Raises:
        ValueError: an unknown `asks`.
    """

    def __init__(self, encoder, target_size, embed_dim, decoder_dim, attention=None, asks="current"):
        super().__init__()
        if asks not in ("current", "previous"):
            raise ValueError(f"asks={asks!r}; expected 'current' or 'previous'")
        self.encoder, self.attention = encoder, attention
        self.looks_first = attention is not None and asks == "previous"
        context_dim = 0 if attention is None else encoder.state_dim
        # Equal sizes need no bridge: the decoder starts where the encoder ended, as in Sutskever et al. 2014.
        self.bridge = None if encoder.state_dim == decoder_dim else nn.Linear(encoder.state_dim, decoder_dim)
        self.embedding = nn.Embedding(target_size, embed_dim, padding_idx=PAD)
        self.gru = nn.GRU(embed_dim + (context_dim if self.looks_first else 0), decoder_dim, batch_first=True)
        self.output = nn.Linear(decoder_dim + context_dim, target_size)

    def encode(self, source):
        """What the decoder is given: its first state (B, decoder_dim), the keys (B, S, state_dim) and their mask."""
        keys, final = self.encoder(source)
        state = final if self.bridge is None else torch.tanh(self.bridge(final))
        return state, keys, create_padding_mask(source, PAD)

    def step(self, token_ids, state, keys, mask):
        """One step of the decoder.

        Args:
            token_ids: (B,), the tokens that came last.
            state: (B, decoder_dim), the previous state.
            keys, mask: as `encode` gives them.

        Returns:
            logits (B, target_size), the new state, and the weights (B, S), or None without attention.
        """
        check_token_ids("token_ids", token_ids, self.embedding.num_embeddings)
        embedded = self.embedding(token_ids)
        if self.attention is None:
            state = self._cell(embedded, state)
            return self.output(state), state, None
        one_step = bahdanau_step if self.looks_first else luong_step
        state, context, weights = one_step(embedded, state, keys, self._cell, partial(self.attention, mask=mask))
        return self.output(torch.cat([state, context], dim=-1)), state, weights

    def _cell(self, inputs, state):
        """The GRU for one step."""
        return self.gru(inputs.unsqueeze(1), state.unsqueeze(0))[1].squeeze(0)

    def forward(self, source, decoder_input):
        """The logits at every position of a target that is given.

        Args:
            source: (B, S).
            decoder_input: (B, T), BOS and then the target.

        Returns:
            (B, T, target_size).

        Raises:
            TypeError, ValueError: as `Encoder.forward`, and token ids that the target's vocabulary does not have.
        """
        check_token_ids("decoder_input", decoder_input, self.embedding.num_embeddings)
        state, keys, mask = self.encode(source)
        if self.looks_first:  # the next state needs what was found, so there is no other way than step by step
            logits = []
            for token_ids in decoder_input.unbind(dim=1):
                one, state, _ = self.step(token_ids, state, keys, mask)
                logits.append(one)
            return torch.stack(logits, dim=1)
        # The same as step by step, but the states do not wait for what is found, so all of them can ask at once.
        states, _ = self.gru(self.embedding(decoder_input), state.unsqueeze(0))  # (B, T, decoder_dim)
        if self.attention is not None:
            contexts, _ = self.attention(states, keys, mask=mask)
            states = torch.cat([states, contexts], dim=-1)
        return self.output(states)

    @torch.no_grad()
    def greedy(self, source, max_len=80):
        """Translate, taking the likeliest token at each step.

        Args:
            source: (B, S).
            max_len: the most tokens that are made, EOS included.

        Returns:
            token_ids: (B, T), PAD after EOS.
            weights: (B, T, S), or None without attention.

        Raises:
            ValueError: `max_len` below 1.
        """
        if max_len < 1:
            raise ValueError(f"max_len={max_len}; expected 1 or more")
        state, keys, mask = self.encode(source)
        token_ids = torch.full((source.size(0),), BOS, device=source.device)
        done = torch.zeros_like(token_ids, dtype=torch.bool)
        made, maps = [], []
        for _ in range(max_len):
            logits, state, weights = self.step(token_ids, state, keys, mask)
            token_ids = logits.argmax(dim=-1).masked_fill(done, PAD)
            made.append(token_ids)
            maps.append(weights)
            done = done | (token_ids == EOS)
            if done.all():
                break
        return torch.stack(made, dim=1), None if self.attention is None else torch.stack(maps, dim=1)
