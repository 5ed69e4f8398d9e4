"""Quantizes every real model and digit net in four ways and writes docs/models.md.

Usage: models_table.py NIBBLE SHARED_MODELS, in the Python environment of tests/oracle. Each row is one
`nibble quantize --data` on three seeded samples of tests/oracle/common.py.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from common import DIGIT_NETS, REAL_MODELS, feeds_for  # noqa: E402

TARGET = ROOT / "docs" / "models.md"
FORMATS = {"int4 group 32": [], "int8 channel": ["--weights", "int8", "--group-size", "channel"]}
HEAD = """# Real models, quantized

Written by `./dev table` (docs/models_table.py); a test measures some of the rows anew. Weights alone, symmetric, target
`portable`. *coverage*: the part of the weight elements that was quantized. *bpw*: bits of codes, scales and zero points
over these elements, all copies in the file. *of float32*: bytes of the whole file over the original's. *SQNR*: of the output
that suffers most, on three seeded inputs: noise, random tokens, and for the text detector strokes on white; so the figures
compare formats on one model and say little about its real task (for text see [ocr.md](ocr.md), for digits
[digits.md](digits.md)). The last column names what stays float, by operator, with its part of the elements. Models named
*random* have random weights.

| model | weights | emit | coverage | bytes | of float32 | bpw | SQNR dB | float |
|---|---|---|---|---|---|---|---|---|
"""


def stays_float(report):
    left = {}
    for v in report["verdicts"]:
        if v["verdict"] != "quantized":
            left[v["op_type"]] = left.get(v["op_type"], 0) + v["elements"]
    parts = {op: n / report["weight_elements"] for op, n in left.items()}
    return ", ".join(f"{op} {part:.1%}" for op, part in sorted(parts.items(), key=lambda p: -p[1]) if part >= 0.001)


def rows_of(nibble, model):
    """The model's rows as text."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "samples").mkdir()
        for seed in range(3):
            np.savez(folder / "samples" / f"{seed}.npz", **feeds_for(model, seed))
        for weights, words in FORMATS.items():
            for emit in ("qdq", "nbits"):
                command = [nibble, "quantize", model, "-o", folder / "out.onnx", "--data", folder / "samples", "--emit", emit,
                           *words, "--json"]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"{model.stem}: exit {done.returncode}\n{done.stderr}")
                report = json.loads(done.stdout)
                worst = min(float(o["sqnr_db"]) for o in report["diff"]["outputs"] if o["sqnr_db"] is not None)
                rows.append(f"| {model.stem} | {weights} | {emit} | {report['coverage']:.1%} | {report['model_bytes']:,} | "
                            f"{report['size_ratio']:.2f} | {report['bits_per_weight']:.2f} | {worst:.1f} | {stays_float(report)} |")
    return rows


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    models = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in DIGIT_NETS] + [shared / f"{n}.onnx" for n in REAL_MODELS]
    TARGET.write_text(HEAD + "\n".join(row for model in models for row in rows_of(nibble, model)) + "\n")
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
