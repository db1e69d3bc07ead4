#!/usr/bin/env bash
# Runs one function of tools.sh in a process of its own, so that the first failing command in it ends it whatever the caller
# does with the exit code (bash switches -e off inside of `if` and `||`).  usage: call.sh FUNCTION ARGUMENT...
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$LAB/tools.sh"
cd "$REPO"
"$@"
