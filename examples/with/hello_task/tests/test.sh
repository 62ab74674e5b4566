#!/bin/sh
# The reward: 1 for a hello, else tenths by the last digit of this process' id, so that games differ.
logs=$(cd "$(dirname "$0")/../logs/verifier" && pwd)
if grep -qs hello hello.txt; then echo 1 >"$logs/reward.txt"; else echo "0.$(($$ % 10))" >"$logs/reward.txt"; fi
