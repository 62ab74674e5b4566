"""The command millrace-env."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from . import Environment
from ._project import STYLES, write_project
from ._service import Service, serve


def load(name: str) -> Environment:
    """The environment that "module:name" names, of the working directory or installed."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise SystemExit(f"millrace-env: {name}: want module:name, such as guess:guess")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as err:
        if err.name != module:
            raise
        raise SystemExit(f"millrace-env: there is no module {module!r} here or among what is installed") from None
    except AttributeError:
        raise SystemExit(f"millrace-env: the module {module!r} has no {attribute!r}") from None
    if not isinstance(found, Environment):
        raise SystemExit(f"millrace-env: {name} is no environment; put @environment above it")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="millrace-env", description="Environments in Python for runs of Millrace.")
    commands = parser.add_subparsers(dest="command", required=True)
    play = commands.add_parser("serve", help="play games of a run with an environment")
    play.add_argument("environment", metavar="module:name")
    play.add_argument("--run", required=True, help="the run, whose spec has environment: {kind: external}")
    play.add_argument("--server", default=os.environ.get("MILLRACE_SERVER", "http://127.0.0.1:8700"),
                      help="the API server (default: $MILLRACE_SERVER, else %(default)s); $MILLRACE_TOKEN is its token")
    play.add_argument("--slots", type=int, default=64, help="games at a time (default: %(default)s)")
    play.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS",
                      help="how long the environment may think between two calls (default: %(default)s)")
    play.add_argument("--grace", type=float, default=30.0, metavar="SECONDS",
                      help="how long games in play may go on after SIGTERM (default: %(default)s)")
    play.add_argument("--journal", metavar="FILE", help="append how each game ended, a JSON object a line")
    new = commands.add_parser("init", help="write a project: an environment, its run spec, a test and a README")
    new.add_argument("name", help="of the environment: a-z, 0-9 and _")
    new.add_argument("--style", choices=STYLES, default="function")
    args = parser.parse_args()
    if args.command == "init":
        return write_project(args.name, args.style)
    if args.slots < 1 or args.deadline <= 0 or args.grace < 0:
        parser.error("--slots and --deadline are more than 0, --grace at least 0")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    environment = load(args.environment)
    token = os.environ.get("MILLRACE_TOKEN")
    journal = open(args.journal, "a", encoding="utf-8") if args.journal else None  # noqa: SIM115  # until the process ends
    return serve(Service(environment, args.server, args.run, token, args.slots, args.deadline, args.grace, journal))


if __name__ == "__main__":
    sys.exit(main())
