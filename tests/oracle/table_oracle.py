"""Compares cells of docs/digits.md with what ONNX Runtime gives for the same files.

Usage: table_oracle.py NIBBLE SHARED_MODELS SOURCE_DIR. A row's file is made anew with `nibble quantize`; its size must be
the table's to the byte, its accuracy under ONNX Runtime the table's, its SQNR within 0.1 dB (activations in float).
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

CELLS = [("digits_vit", "int4", "symmetric", "32"), ("digits_vit", "int4", "asymmetric", "128"),
         ("digits_vit", "int8", "symmetric", "channel"), ("digits_cnn", "int4", "symmetric", "64"),
         ("digits_cnn", "int8", "symmetric", "tensor")]
TITLES = {"digits_vit": "## Vision transformer", "digits_cnn": "## Convolutional net"}


def table_row(text, net, weights, scheme, group):
    section = text[text.index(TITLES[net]):]
    found = re.search(rf"^\| {weights} \| {scheme} \| {group} \| ([\d,]+) \| [\d.]+ \| [\d.]+ \| ([\d.-]+) \| ([\d.]+)% \|$",
                      section, re.M)
    return int(found[1].replace(",", "")), float(found[2]), float(found[3])


def run(path, samples):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: samples[i:i + 1]})[0] for i in range(len(samples))])


def check_cell(nibble, digits, text, cell, folder):
    net, weights, scheme, group = cell
    size, sqnr, accuracy = table_row(text, *cell)
    samples = np.load(digits / "heldout.npz")["input"]
    labels = np.load(digits / "labels.npy")
    out = folder / "out.onnx"
    subprocess.run([nibble, "quantize", digits / f"{net}.onnx", "-o", out, "--weights", weights, "--scheme", scheme,
                    "--group-size", group, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    reference = run(digits / f"{net}.onnx", samples).astype(np.float64)
    got = run(out, samples).astype(np.float64)
    measured = 10 * np.log10((reference**2).sum() / ((reference - got)**2).sum())
    right = 100 * (got.argmax(-1) == labels).mean()
    problems = []
    if out.stat().st_size != size:
        problems.append(f"size {out.stat().st_size} is not {size}")
    if abs(measured - sqnr) > 0.1:
        problems.append(f"SQNR {measured:.2f} is not {sqnr}")
    if abs(right - accuracy) > 0.005:
        problems.append(f"accuracy {right:.2f} is not {accuracy}")
    return problems


def main():
    nibble, root = sys.argv[1], pathlib.Path(sys.argv[3])
    text = (root / "docs" / "digits.md").read_text()
    failed = 0
    for cell in CELLS:
        with tempfile.TemporaryDirectory() as folder:
            problems = check_cell(nibble, root / "testdata" / "digits", text, cell, pathlib.Path(folder))
        print(f"{' '.join(cell)}: {'; '.join(problems) or 'agrees'}")
        failed += bool(problems)
    print(f"{len(CELLS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
