#!/usr/bin/env bash
# The demo: a small vision transformer for 8x8 digits, to INT4, and what that cost. Usage: demo.sh NIBBLE
set -euo pipefail
nibble=$1
data="$(dirname "$(readlink -f "$0")")/../testdata/digits"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

show() {
  printf '\n$ %s\n' "nibble $(printf '%s ' "$@" | sed "s#$data/##g; s#$out/##g; s# \$##")"
  "$nibble" "$@"
}

show quantize "$data/digits_vit.onnx" -o "$out/digits_int4.onnx" --weights int4 --group-size 32
show diff "$data/digits_vit.onnx" "$out/digits_int4.onnx" --data "$data/heldout.npz" --labels "$data/labels.npy" \
  --gate 'accuracy.drop<=2'
