#!/usr/bin/env python3
"""Measures what choosing a format for each weight gains over one format for all, and writes docs/auto.md.

Usage: auto_table.py NIBBLE SHARED_MODELS, with the Python of tests/oracle/requirements.txt. Formats are chosen on every
other sample; the figures are ONNX Runtime's on the samples between, on one thread.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
import ocr_lines  # noqa: E402
from common import session, sqnr  # noqa: E402

TARGET = ROOT / "docs" / "auto.md"
DIGITS = ROOT / "testdata" / "digits"
RECOGNISER = "ch_PP-OCRv4_rec_infer.onnx"
GROUPS = ("32", "64", "128")


class Digits:
    """The digit transformer: 200 held-out digits to choose on, 200 others to judge by."""
    title, unit = "Digit transformer", "digits"
    options, conditions = [], ("sqnr>=20", "sqnr>=30", "sqnr>=40")
    model = DIGITS / "digits_vit.onnx"

    def __init__(self):
        with np.load(DIGITS / "heldout.npz") as arrays:
            (self.name, rows), = arrays.items()
        self.chosen_on, self.judged_by = [rows[0::2]], [rows[i:i + 1] for i in range(1, len(rows), 2)]
        self.count = len(rows[0::2])

    def write_samples(self, folder):
        np.savez(folder / "samples.npz", **{self.name: self.chosen_on[0]})
        return folder / "samples.npz"


class Recogniser:
    """The text recogniser: every other drawn line to choose on, the lines between to judge by."""
    title, unit = "Text recogniser (PP-OCRv4)", "lines"
    options, conditions = ["--samples-for-search", "6"], ("sqnr>=20",)

    def __init__(self, shared):
        self.model = shared / RECOGNISER
        self.name = session(self.model).get_inputs()[0].name
        lines = [ocr_lines.recogniser_input(ocr_lines.draw_line(*line)) for line in ocr_lines.LINES]
        self.chosen_on, self.judged_by = lines[0::2], lines[1::2]
        self.count = len(self.chosen_on)

    def write_samples(self, folder):
        samples = folder / "samples"
        samples.mkdir()
        for i, line in enumerate(self.chosen_on):
            np.savez(samples / f"{i:02}.npz", **{self.name: line})
        return samples


def quantize(nibble, model, out, *options):
    command = [str(a) for a in (nibble, "quantize", model, "-o", out, *options, "--json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def answers(model, subject):
    runner = session(model, level=1)
    return np.concatenate([runner.run(None, {subject.name: x})[0].ravel() for x in subject.judged_by])


class Measured:
    """Every row of one subject, in a scratch folder: dicts by the columns' titles."""

    def __init__(self, nibble, subject, groups, conditions):
        self.nibble, self.subject = nibble, subject
        self.reference = answers(subject.model, subject)
        self.budget_rows, self.auto_rows = [], []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data = subject.write_samples(folder)
            for group in groups:
                self.budget_rows += self.against_uniform(folder, data, group)
            for condition in conditions:
                self.auto_rows.append(self.meeting(folder, data, condition))

    def row(self, what, path):
        got = answers(path, self.subject)
        return {"formats": what, "bytes": path.stat().st_size, "SQNR dB": float(sqnr(self.reference, got))}

    def against_uniform(self, folder, data, group):
        uniform, chosen = folder / "uniform.onnx", folder / "chosen.onnx"
        quantize(self.nibble, self.subject.model, uniform, "--weights", "int4", "--group-size", group)
        size = uniform.stat().st_size
        report = quantize(self.nibble, self.subject.model, chosen, "--budget", size, "--data", data,
                          *self.subject.options)
        return [self.row(f"int4 group {group} throughout", uniform),
                {**self.row(f"`--budget {size}`", chosen), **tally(report)}]

    def meeting(self, folder, data, condition):
        out = folder / "auto.onnx"
        report = quantize(self.nibble, self.subject.model, out, "--auto", condition, "--data", data,
                          *self.subject.options)
        return {**self.row(f"`--auto '{condition}'`", out), **tally(report)}


def tally(report):
    """How many weights got which format; SQNR on the samples that it was chosen on, told from single weights and found."""
    counts = {}
    for weight in report["search"]["weights"]:
        counts[weight["chosen"]] = counts.get(weight["chosen"], 0) + 1
    search = report["search"]
    return {"estimated": search["estimated_sqnr_db"], "measured": search["sqnr_db"],
            "weights of each format": ", ".join(f"{n} {label}" for label, n in sorted(counts.items()))}


COLUMNS = ["formats", "bytes", "SQNR dB", "estimated", "measured", "weights of each format"]


def table(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        cells = [row.get(c, "") for c in COLUMNS]
        cells = [f"{c:,}" if isinstance(c, int) else f"{c:.1f}" if isinstance(c, float) else c for c in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def prose(text):
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)


def introduction():
    return prose("""Written by `./dev table` (docs/auto_table.py); a test measures some of the rows anew. `nibble quantize
    --budget BYTES` with the size of a model in one format throughout, and `--auto CONDITION`, from the default candidates.
    Formats are chosen on every other sample and judged by the samples between. *SQNR*: of ONNX Runtime's answers, matrices
    computed with float activations, on the latter, all together. *estimated* and *measured*: SQNR on the samples that
    formats were chosen on, as the sum of what single weights cost and of the choice as a whole.""")


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    text = ["# One format for all weights, and one for each", "", introduction()]
    for subject in (Digits(), Recogniser(shared)):
        measured = Measured(nibble, subject, GROUPS, subject.conditions)
        text += ["", f"## {subject.title}", "", f"{subject.count} {subject.unit} to choose on, "
                 f"{len(subject.judged_by)} to judge by; {subject.model.stat().st_size:,} bytes as float32.", "",
                 table(measured.budget_rows), "", table(measured.auto_rows)]
    TARGET.write_text("\n".join(text) + "\n")
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
