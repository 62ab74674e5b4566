"""model.py DIR CORPUS...: a model small enough for two cores, for a real vLLM to serve.

DIR/model is a Qwen2 of random weights with a byte-level BPE tokenizer trained on the CORPUS files. Beside it lie two LoRA
adapters in PEFT's format: DIR/lora-8, which an engine with --max-lora-rank 16 can serve, and DIR/lora-32, which it must
refuse. Everything is made here, from fixed seeds; nothing is downloaded.

Hidden size, heads and projections are such that q_proj and v_proj are 64 x 64, the shape of the demo trainer's adapters.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging

END = "<|endoftext|>"
VOCABULARY = 2048  # at most: the corpus may not have as many pairs
CONTEXT = 4096
HIDDEN, LAYERS, HEADS = 64, 2, 2
CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_tokenizer(out: pathlib.Path, corpus: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train(
        corpus,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return tokenizer


def write_model(out: pathlib.Path, tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    end = tokenizer.token_to_id(END)
    config = Qwen2Config(
        vocab_size=tokenizer.get_vocab_size(),  # no id without a token
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        initializer_range=0.1,  # wide enough for a distribution that is not flat
        tie_word_embeddings=False,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    Qwen2ForCausalLM(config).to(torch.float32).save_pretrained(out)


def write_adapter(out: pathlib.Path, base: pathlib.Path, rank: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    random = torch.Generator().manual_seed(rank)
    modules = ["q_proj", "v_proj"]
    tensors = {}
    for layer in range(LAYERS):
        for module in modules:
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{name}.lora_A.weight"] = 0.1 * torch.randn(rank, HIDDEN, generator=random)
            tensors[f"{name}.lora_B.weight"] = 0.1 * torch.randn(HIDDEN, rank, generator=random)
    save_file(tensors, out / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base),
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "target_modules": modules,
        "bias": "none",
        "use_dora": False,
        "use_rslora": False,
        "fan_in_fan_out": False,
        "inference_mode": True,
        "modules_to_save": None,
        "init_lora_weights": True,
    }
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    root, corpus = pathlib.Path(sys.argv[1]), sys.argv[2:]
    if not corpus:
        sys.exit(__doc__)
    logging.disable_progress_bar()
    model = root / "model"
    model.mkdir(parents=True, exist_ok=True)
    write_model(model, write_tokenizer(model, corpus))
    for rank in (8, 32):
        write_adapter(root / f"lora-{rank}", model, rank)


if __name__ == "__main__":
    main()
