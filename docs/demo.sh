#!/usr/bin/env bash
# The demo: a small vision transformer for 8x8 digits, to INT4, and what that cost. Usage: demo.sh NIBBLE
set -euo pipefail
nibble=$1
nibble=$(readlink -f "$nibble")
data=$(readlink -f "$(dirname "$0")/../testdata/digits")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A word as a shell takes it: in quotes where it needs them.
quoted() {
  if [[ $1 =~ ^[A-Za-z0-9_./=,:+-]+$ ]]; then printf '%s' "$1"; else printf '%s' "${1@Q}"; fi
}

# Runs a command and prints it, ready to be pasted, and its output without the folders.
show() {
  {
    printf '\n$ nibble'
    for word in "$@"; do printf ' %s' "$(quoted "$word")"; done
    printf '\n'
    "$nibble" "$@"
  } | sed "s#$data/##g; s#$out/##g"
}

show quantize "$data/digits_vit.onnx" -o "$out/digits_int4.onnx" --weights int4 --group-size 32
show diff "$data/digits_vit.onnx" "$out/digits_int4.onnx" --data "$data/heldout.npz" --labels "$data/labels.npy" \
  --gate 'accuracy.drop<=2'
