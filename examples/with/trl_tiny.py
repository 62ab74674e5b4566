"""A tiny Qwen3 for TRL, with as many ids as the simulated engines' vocabulary, and what lets TRL's asynchronous trainer
run without a GPU."""

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, and an end."""
    alphabet = {letter: n for n, letter in enumerate([*pre_tokenizers.ByteLevel.alphabet(), "<end>"])}
    bytes_alone = Tokenizer(models.BPE(alphabet, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, eos_token="<end>", pad_token="<end>")
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    made.response_template = {"defaults": {"role": "assistant"}, "fields": {"content": {}}}
    return made


def model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=151936, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, tie_word_embeddings=True))


def lora() -> Any:
    from peft import LoraConfig  # here: SkyRL's installation has none

    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")


def trained(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of what is trained of a model."""
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


def moved(model: torch.nn.Module, before: dict[str, torch.Tensor]) -> float:
    """How far what is trained has moved since trained()."""
    return sum((value.detach() - before[name]).norm().item() for name, value in model.named_parameters() if name in before)


class _Attention:
    """FlashAttention's function for segments of many lengths, as TRL calls it: each segment sees its own path."""

    @staticmethod
    def flash_attn_varlen_func(query: Any, key: Any, value: Any, ends_q: Any, ends_k: Any, max_q: int, max_k: int,
                               softmax_scale: float, causal: bool, window_size: tuple[int, int]) -> Any:
        assert causal and window_size == (-1, -1)
        rows, from_q, from_k = [], 0, 0
        for to_q, to_k in zip(ends_q.tolist()[1:], ends_k.tolist()[1:], strict=True):
            part = [x.transpose(0, 1) for x in (query[from_q:to_q], key[from_k:to_k], value[from_k:to_k])]
            seen = torch.ones(to_q - from_q, to_k - from_k, dtype=torch.bool).tril(to_k - from_k - to_q + from_q)
            rows.append(torch.nn.functional.scaled_dot_product_attention(
                *part, attn_mask=seen, scale=softmax_scale, enable_gqa=True).transpose(0, 1))
            from_q, from_k = to_q, to_k
        return torch.cat(rows)


def without_gpu() -> None:
    """A plain attention in place of FlashAttention-3, and no look for a vLLM and a GPU of this machine. Nothing else of
    TRL is changed."""
    from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing

    packing._flash_attn = lambda: _Attention
    async_rollout_worker.is_vllm_available = lambda: True
    async_grpo_trainer.get_peak_flops_per_device = lambda accelerator, dtype: None
