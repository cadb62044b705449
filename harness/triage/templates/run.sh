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
if command -v opscope >/dev/null; then
  exec opscope replay "$here" "$@"
fi
# Not on the PATH: the environment of the folder's own project or of where it is called from, or any Python that has opscope.
for start in "$here" "$PWD"; do
  above=$start
  while [ "$above" != / ]; do
    [ -x "$above/.venv/bin/opscope" ] && exec "$above/.venv/bin/opscope" replay "$here" "$@"
    above=$(dirname -- "$above")
  done
done
for python in ${PYTHON:+"$PYTHON"} python3 python; do
  if command -v "$python" >/dev/null && "$python" -P -c "import opscope" 2>/dev/null; then
    exec "$python" -P -m opscope.harness.triage.replay "$here" "$@"
  fi
done
echo "run.sh: expected opscope on the PATH, in a .venv above or in python3, got none; try OPSCOPE=/path/to/checkout" >&2
exit 2
