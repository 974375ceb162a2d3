#!/usr/bin/env bash
# Everything that can run on a GPU, run there and on the processor, and compared: at most 8 minutes.
#   benchmarks/gpu.sh --pack DIR       before, where pip works: what a bare machine may lack
#   benchmarks/gpu.sh --wheels DIR     on the machine with the GPU; --help tells of the rest
# PYTHON names the Python that has torch.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "${PYTHON:-python3}" -m benchmarks.gpu "$@"
