#!/bin/sh
# Runs the op of this folder again. Options go to `opscope replay`: --backend, --arch, --data-format, --json, ...
# OPSCOPE=/path/to/checkout uses the opscope of a checkout (with PYTHON; default: its .venv) instead of the installed one.
# Exit code 0: it passes; 1: it fails as recorded; 2: it could not be run; 3: it fails in another way.
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 2
if [ -n "${OPSCOPE:-}" ]; then
  PYTHONPATH="$OPSCOPE${PYTHONPATH:+:$PYTHONPATH}"
  export PYTHONPATH
  exec "${PYTHON:-$OPSCOPE/.venv/bin/python}" -P -m opscope.harness.triage.replay "$here" "$@"
fi
command -v opscope >/dev/null || { echo "run.sh: expected opscope on the PATH, got none; try OPSCOPE=/path/to/checkout" >&2; exit 2; }
exec opscope replay "$here" "$@"
