"""Guess the number: a program that plays games of a run. pip install openai; python guess.py [SERVER]."""

import json
import os
import random
import re
import sys
import threading
import time
import urllib.request
from typing import Any
from urllib.error import HTTPError

from openai import OpenAI, OpenAIError

SERVER = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8700"
LEASE = f"{SERVER}/v1/runs/guess/episodes/lease?wait=30s"


def post(url: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.loads(answer.read() or "{}")


def play(game: dict[str, Any]) -> None:
    number = random.Random(game["scenario"]["seed"]).randint(1, 100)
    model = OpenAI(base_url=game["openai_base_url"], api_key=game["api_key"])
    chat: list[Any] = [{"role": "user", "content": "I have a number from 1 to 100. Guess it."}]
    for left in range(7, 0, -1):  # noqa: B007  # read after the loop
        said = model.chat.completions.create(model=game["model"], messages=chat).choices[0].message.content or ""
        guess = int((re.findall(r"\d{1,3}", said) or ["0"])[-1])
        if guess == number:
            break
        chat.append({"role": "assistant", "content": said})
        chat.append({"role": "user", "content": "Higher." if guess < number else "Lower."})
    reward = left / 7 if guess == number else -abs(guess - number) / 1000
    post(game["base_url"] + "/done", {"reward": reward}, game["api_key"])


def player() -> None:
    while True:
        try:
            if game := post(LEASE, {}, os.environ.get("MILLRACE_TOKEN", "")):
                play(game)
        except (OSError, OpenAIError) as err:  # whoever leases the game next goes on with it
            if isinstance(err, HTTPError) and err.url == LEASE and err.code < 500:
                return print(f"no more games: {json.loads(err.read())['detail']}")
            time.sleep(1)


for _ in range(16):
    threading.Thread(target=player).start()
