#!/usr/bin/env python3
"""Measures formats x group sizes x schemes on the two digit nets and writes docs/digits.md.

Usage: digits_table.py NIBBLE [--check]   (--check: fail when the file is stale, write nothing)
Only the standard library is used. Each row is one `nibble quantize` and one `nibble diff` on the 400 held-out samples.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "testdata" / "digits"
TARGET = ROOT / "docs" / "digits.md"

ROWS = [("int4", scheme, group) for scheme in ("symmetric", "asymmetric") for group in ("32", "64", "128", "256")]
ROWS += [("int8", "symmetric", group) for group in ("tensor", "channel", "32")]


def call(nibble, *args):
    done = subprocess.run([nibble, *map(str, args), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"nibble {' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def measure(nibble, net, folder):
    model = DIGITS / f"{net}.onnx"
    float_bytes = model.stat().st_size
    lines = []
    for weights, scheme, group in ROWS:
        out = pathlib.Path(folder) / f"{net}-{weights}-{scheme}-{group}.onnx"
        made = call(nibble, "quantize", model, "-o", out, "--weights", weights, "--scheme", scheme, "--group-size", group)
        diff = call(nibble, "diff", model, out, "--data", DIGITS / "heldout.npz", "--labels", DIGITS / "labels.npy")
        size = out.stat().st_size
        sqnr = diff["outputs"][0]["sqnr_db"]
        accuracy = diff["task"]
        if not lines:
            lines.append(f"| float32 | | | {float_bytes:,} | 1.00 | 32 | | {accuracy['reference']['accuracy']:.2%} |")
        lines.append(f"| {weights} | {scheme} | {group} | {size:,} | {size / float_bytes:.2f} | "
                     f"{made['bits_per_weight']:.2f} | {sqnr:.1f} | {accuracy['candidate']['accuracy']:.2%} |")
    return lines


def render(nibble):
    text = ["# Formats and group sizes on the digit nets", "",
            "Written by `./dev table`; a test compares cells with what ONNX Runtime gives for the same files.",
            "400 held-out samples, qdq form, target `portable`. *bpw*: bits of codes, scales and zero points over the",
            "weights that were quantized. Bytes are those of the whole file.", ""]
    with tempfile.TemporaryDirectory() as folder:
        for net, title in (("digits_vit", "Vision transformer"), ("digits_cnn", "Convolutional net")):
            text += [f"## {title}", "", "| weights | scheme | group | bytes | of float32 | bpw | SQNR dB | accuracy |",
                     "|---|---|---|---|---|---|---|---|", *measure(nibble, net, folder), ""]
    return "\n".join(text)


def main():
    text = render(sys.argv[1])
    if "--check" in sys.argv[2:]:
        if TARGET.read_text() != text:
            sys.exit("docs/digits.md is stale: run ./dev table")
        print("docs/digits.md is up to date")
    else:
        TARGET.write_text(text)
        print(f"wrote {TARGET.relative_to(ROOT)}")


main()
