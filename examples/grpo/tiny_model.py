"""tiny_model.py DIR [GAME]: a Qwen3 of a few hundred thousand weights that knows a game's rules at most, and no strategy.

DIR becomes a model folder as Hugging Face's libraries write it, made from fixed seeds; nothing is downloaded. For tictactoe
the model is taught by plain cross-entropy on games in which both sides mark any free square: it then answers with a free
square, each about as likely as the others. For diplomacy it is taught nothing: its tokenizer has a token for each unit, place
and word of an order, and the constraint leaves it legal orders alone. That is what reinforcement learning starts from.
"""

import json
import pathlib
import random
import re
import sys
import time

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

END = "<|endoftext|>"
SQUARES = [column + row for row in "321" for column in "abc"]
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
# As internal/game/tictactoe writes it.
RULES = (
    "Tic-tac-toe. Players X and O mark one free square in turn; three marks in a row, column or diagonal win.\n"
    "Squares are named by column a-c and row 1-3. Answer with the name of one free square.\n\n"
)
GAME = pathlib.Path(__file__).resolve().parents[2] / "internal/game"
# The words of Diplomacy's prompts and orders: a unit, a coast, a phase, any other word or number, a mark.
WORD = r" ?[AF] [A-Z]{3}|/[NSEW]C|[SFW]\d{4}[MRA]| ?[A-Za-z]+| ?\d+|\n| ?[^\w\s]"
HIDDEN, LAYERS, HEADS = 64, 2, 4
EXAMPLES, BATCH, RATE = 500, 64, 3e-3  # batches of positions, positions in each, the peak of Adam's learning rate


def prompt(board: list[str], player: str) -> str:
    rows = ["321"[row] + "".join(" " + (mark or ".") for mark in board[3 * row : 3 * row + 3]) for row in range(3)]
    return RULES + "\n".join(rows) + "\n  a b c\n\nYou are " + player + ". Your move: "


def position(rng: random.Random) -> tuple[str, list[int]]:
    """A prompt from the middle of a random game, and the squares that are free."""
    while True:
        board, left = [""] * 9, list(range(9))
        rng.shuffle(left)
        moves = rng.randrange(9)
        for turn in range(moves):
            board[left[turn]] = "XO"[turn % 2]
        if not any(board[a] and board[a] == board[b] == board[c] for a, b, c in LINES):
            return prompt(board, "XO"[moves % 2]), left[moves:]


def write_tokenizer(out: pathlib.Path, rng: random.Random) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [position(rng)[0] for _ in range(200)],
        trainers.BpeTrainer(vocab_size=512, special_tokens=[END], initial_alphabet=alphabet, show_progress=False),
    )
    # An answer is one token, and the end; the rules, the same in every prompt, are one token, so that two cores suffice.
    tokenizer.add_tokens([RULES, *SQUARES])
    save_tokenizer(tokenizer, out)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: pathlib.Path) -> None:
    tokenizer.save(str(out / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "pad_token": END, "model_max_length": 4096}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_diplomacy_tokenizer(out: pathlib.Path) -> Tokenizer:
    """A token for each word. No token begins another that may stand in its place: an order is written in one way.

    The rules, the same in every prompt, are one token."""
    files = [GAME / f"diplomacyenv/testdata/{phase}.txt" for phase in ("movement", "retreats", "builds", "removals")]
    sections = "".join(file.read_text() for file in files).split("=== ")
    prompts = "".join(section.partition("\n")[2] for section in sections if not section.startswith("constraint"))
    rules = prompts[prompts.index("You command one power") : prompts.index("in their order.\n") + len("in their order.\n")]
    places = [place["id"] for place in json.loads((GAME / "diplomacy/standard_map.json").read_text())["provinces"]]
    orders = [" - ", " H", " S ", " C ", " VIA", " R ", " D", " B", "WAIVE", "/NC", "/SC", "/EC", "\n"]
    phases = ["S1901M", "S1901R", "F1901M", "F1901R", "W1901A"]
    units = [f"{space}{kind} {place}" for place in places for space in ("", " ") for kind in "AF"]
    words = [*orders, *phases, *units, *places, *(" " + place for place in places), *re.findall(WORD, prompts.replace(rules, ""))]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([END, "<unk>", *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([END])
    tokenizer.add_tokens([rules])
    save_tokenizer(tokenizer, out)
    return tokenizer


def teach(model: Qwen3ForCausalLM, tokenizer: Tokenizer, rng: random.Random) -> float:
    """Legal play, by cross-entropy against a uniform choice of the free squares; answers the share of legal answers."""
    squares = torch.tensor([tokenizer.token_to_id(square) for square in SQUARES])
    end = tokenizer.token_to_id(END)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EXAMPLES)
    legal, began = 0.0, time.monotonic()
    for step in range(EXAMPLES):
        examples = [position(rng) for _ in range(BATCH)]
        ids = [tokenizer.encode(text).ids for text, _ in examples]
        length = max(map(len, ids)) + 1
        tokens = torch.full((BATCH, length), end)
        answer = torch.zeros(BATCH, dtype=torch.long)
        want = torch.zeros(BATCH, model.config.vocab_size)
        for row, (given, (_, free)) in enumerate(zip(ids, examples, strict=True)):
            tokens[row, : len(given)] = torch.tensor(given)
            tokens[row, len(given)] = squares[rng.choice(free)]
            answer[row] = len(given) - 1
            want[row, squares[free]] = 1 / len(free)
        logits = model(tokens).logits
        rows = torch.arange(BATCH)
        move = torch.log_softmax(logits[rows, answer], -1)
        stop = torch.log_softmax(logits[rows, answer + 1], -1)[:, end]
        loss = -(want * move).sum(1).mean() - 0.1 * stop.mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        legal = 0.95 * legal + 0.05 * (move.exp() * (want > 0)).sum(1).mean().item()
        if (step + 1) % 50 == 0:
            print(f"  legal play: {step + 1} of {EXAMPLES} batches, {legal:.1%} legal, {time.monotonic() - began:.0f} s", flush=True)
    return legal


def main() -> None:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["tictactoe"], ["diplomacy"]):
        sys.exit(__doc__)
    out, diplomacy = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["diplomacy"]
    out.mkdir(parents=True, exist_ok=True)
    logging.disable_progress_bar()
    rng = random.Random(0)
    torch.manual_seed(0)
    tokenizer = write_diplomacy_tokenizer(out) if diplomacy else write_tokenizer(out, rng)
    end = tokenizer.token_to_id(END)
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=HIDDEN,
        intermediate_size=4 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HIDDEN // HEADS * 2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        initializer_range=0.1 if diplomacy else 0.02,  # of a model that is not taught, wide enough to prefer some orders
    )
    model = Qwen3ForCausalLM(config).to(torch.float32)
    knows = "it was taught nothing" if diplomacy else f"{teach(model, tokenizer, rng):.1%} of its answers are legal"
    model.eval().save_pretrained(out)
    print(f"a Qwen3 of {sum(p.numel() for p in model.parameters()):,} weights in {out}; {knows}")


if __name__ == "__main__":
    main()
