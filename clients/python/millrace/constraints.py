"""Which tokens a constraint allowed, found again with xgrammar, as vLLM finds them.

A completion that was sampled under a regex, a grammar or a choice has logprobs of the distribution renormalised over
what was allowed at each token. To compute the same from a model's logits, the same tokens must be left out. Engines do
not report them everywhere, so they are rebuilt here from the constraint's text and the tokens.

    allowed = AllowedTokens(tokenizer, vocab_size=model.config.vocab_size)
    batch = collate(rows, allowed=allowed)
"""

from __future__ import annotations

import functools
import json
from typing import Any, Dict, Optional, Sequence

import numpy as np

__all__ = ["AllowedTokens", "ConstraintError"]


class ConstraintError(Exception):
    """Ratios were asked for that would be wrong: the text names the cause and what to do."""


class AllowedTokens:
    """Allowed tokens by constraint, for one tokenizer.

    tokenizer: a Hugging Face tokenizer, the one that the engine has. vocab_size: columns of the model's logits, not the
    tokenizer's length. stop_token_ids: what ends an answer, if it is more than the tokenizer's eos_token_id.
    ConstraintError: xgrammar is not installed, or the tokenizer is none that it knows.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, stop_token_ids: Optional[Sequence[int]] = None) -> None:
        try:
            import xgrammar
        except ImportError as err:
            raise ConstraintError(
                "the run's answers were sampled under a constraint, and xgrammar, which rebuilds it, is not installed: "
                "pip install './clients/python[torch]', or train with environment.constraint: none"
            ) from err
        self._xgrammar, self.vocab_size = xgrammar, vocab_size
        stops = list(stop_token_ids) if stop_token_ids else None
        try:
            info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size, stop_token_ids=stops)
        except Exception as err:  # its own kinds of errors differ between versions
            raise ConstraintError("xgrammar does not know the tokenizer: %s" % err) from err
        self._compiler = xgrammar.GrammarCompiler(info)
        self._compiled = functools.lru_cache(maxsize=4096)(self._compile)

    def _compile(self, kind: str, text: str) -> Any:
        if kind == "regex":
            return self._compiler.compile_regex(text)
        if kind == "choice":  # as vLLM makes a grammar of it
            quoted = (choice.replace("\\", "\\\\").replace('"', '\\"') for choice in json.loads(text))
            return self._compiler.compile_grammar("root ::= " + " | ".join('"%s"' % q for q in quoted))
        if kind == "grammar":
            return self._compiler.compile_grammar(text)
        raise ConstraintError("constraint of kind %r: this package knows regex, grammar and choice; is it too old?" % kind)

    def bitmask(self, constraint: Dict[str, Any], token_ids: Sequence[int]) -> np.ndarray:
        """Which tokens were allowed at each place of a completion.

        int32 of shape [len(token_ids), ceil(vocab_size / 32)]: bit i % 32 of word i // 32 is token i.
        ConstraintError: a token was not allowed, so the tokenizer or the constraint is not the one of the engine.
        """
        text = json.dumps(constraint["choices"]) if constraint["kind"] == "choice" else constraint["pattern"]
        matcher = self._xgrammar.GrammarMatcher(self._compiled(constraint["kind"], text))
        bits = np.full((len(token_ids), (self.vocab_size + 31) // 32), -1, dtype=np.int32)
        for at, token in enumerate(token_ids):
            matcher.fill_next_token_bitmask(bits, at)
            if not matcher.accept_token(int(token)):
                raise ConstraintError(
                    "token %d at place %d of a completion is not allowed by its constraint %.80r: is the tokenizer the "
                    "engine's, and vocab_size the model's?" % (token, at, text)
                )
        return bits
