#!/usr/bin/env bash
# Runs suite:ops and five models on an NVIDIA GPU, op by op, through JAX's CUDA plugin as --backend pjrt:cuda, and writes
# verdicts, times and the worst error of each op to a file. Less than eight minutes from wheels.
#
#   ci/on_gpu.sh [--dry-run] [FOLDER]      FOLDER (build/gpu): the environment, the run and gpu.md, its figures
#
# WHEELS=DIR takes wheels from there alone, PYTHON, JAX (`==0.11.*`; the version of constraints.txt by default) and
# CUDA (`cuda13`, `cuda12`) choose what is installed, LANES how many ops run at once, MODELS which models do (`--model`
# takes each). READY=yes leaves PYTHON's own packages (jax with its CUDA plugin, pytest) as they are: every wheel of
# WHEELS, opscope's among them (`pip wheel --no-deps -w DIR .`), goes to FOLDER/site beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

dry=""
if [[ "${1:-}" == --dry-run ]]; then
  dry=yes
  shift
fi
folder="$(realpath -m "${1:-build/gpu}")"
python="${PYTHON:-python3}"
cuda="${CUDA:-cuda13}"
jax="${JAX:-$(sed -n 's/^jax\(==.*\)$/\1/p' constraints.txt)}"
cores="$(nproc)"
lanes="${LANES:-$((cores > 8 ? 8 : cores))}"

step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }
run() { if [[ -n "$dry" ]]; then printf '+ %s\n' "$*"; else "$@"; fi; }

if [[ -z "$dry" ]] && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "ci/on_gpu.sh: expected a machine with an NVIDIA GPU, got none that nvidia-smi finds; try --dry-run" >&2
  exit 2
fi

source_of_wheels=()
if [[ -n "${WHEELS:-}" ]]; then
  source_of_wheels=(--no-index --find-links "$WHEELS")
fi
run mkdir -p "$folder"
if [[ -n "${READY:-}" ]]; then
  step "wheels: opscope beside the packages of $python"
  run "$python" -m pip --disable-pip-version-check install -qq --no-index --no-deps --upgrade --target "$folder/site" \
    "${WHEELS:?READY needs the folder of wheels}"/*.whl
  export PYTHONPATH="$folder/site"
  opscope="$folder/site/bin/opscope"
else
  step "wheels: opscope, jax$jax with $cuda"
  run "$python" -m venv "$folder/venv"
  python="$folder/venv/bin/python"
  opscope="$folder/venv/bin/opscope"
  # JAX's own pin is left out of the constraints where another version is asked for.
  if [[ -z "$dry" ]]; then
    grep -v '^jax\(lib\)\?==' constraints.txt >"$folder/constraints.txt"
  fi
  run "$python" -m pip --disable-pip-version-check install -qq ${source_of_wheels[@]+"${source_of_wheels[@]}"} \
    -c "$folder/constraints.txt" -e . "jax[$cuda]$jax"
fi

step "what it is"
run nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
run "$opscope" doctor --backend pjrt:cuda

step "op by op, $lanes lanes"
export OPSCOPE_CACHE_DIR="${OPSCOPE_CACHE_DIR:-$folder/cache}"
models=()
for model in ${MODELS:-suite:ops mnist_mlp resnet50 bert_base vit_base gpt2_small}; do
  models+=(--model "$model")
done
failed=0
# A user's folder, not this project's own tests with their settings.
run touch "$folder/pytest.ini"
# A failed op is a finding: the exit code of the run is told at the end, and the figures are written in any case.
(run cd "$folder" && run timeout 400 "$python" -m pytest --op-by-op "${models[@]}" --backend xla,pjrt:cuda \
  -n "$lanes" --reruns 1 --budget 6m -q) || failed=$?

step "figures"
if [[ -n "$dry" ]]; then
  run "$python" -m ci.gpu_figures RUN ">" "$folder/gpu.md"
  exit 0
fi
newest="$(find "$folder/.opscope/runs" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1)"
{
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  "$python" -m ci.gpu_figures "$newest"
} | tee "$folder/gpu.md"
step "done; pytest ended with $failed"
exit "$failed"
