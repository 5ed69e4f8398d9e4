#!/usr/bin/env python3
"""Measures what weight quantization costs a text recogniser and a text detector (PP-OCRv4) and writes docs/ocr.md.

Usage: ocr_table.py NIBBLE SHARED_MODELS, with the Python of tests/oracle/requirements.txt. The models' answers are ONNX
Runtime's on one thread; the inputs are drawn by tests/oracle/ocr_lines.py.
"""
import functools
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

TARGET = ROOT / "docs" / "ocr.md"
RECOGNISER, DETECTOR, KEYS = "ch_PP-OCRv4_rec_infer.onnx", "ch_PP-OCRv4_det_infer.onnx", "ppocr_keys_v1.txt"
THRESHOLD, LEAST_PIXELS, SAME_BOX = 0.3, 30, 0.5

# What a row says of itself, and the options of its runs of `nibble quantize`, each on what the one before wrote.
INT8 = ["--weights", "int8", "--group-size", "channel"]
FORMATS = {"int8 per channel": [INT8],
           **{f"int4 group {n}": [["--weights", "int4", "--group-size", n]] for n in ("32", "64", "128", "256")}}
INT4_MATMUL = ["--weights", "int4", "--group-size", "32", "--skip-op", "Conv"]
MIXTURES = {"int4 group 32, Conv float": [INT4_MATMUL], "int4 group 32, Conv int8 per channel": [INT4_MATMUL, INT8]}


# --- quantizing ----------------------------------------------------------------------------------------------


def quantize_once(nibble, model, out, options):
    command = [str(a) for a in (nibble, "quantize", model, "-o", out, *options, "--json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def quantize(nibble, model, folder, runs, emit):
    """(file, part of the weight elements that was quantized, bits of each of those)."""
    level = ["--accuracy-level", "1"] if emit == "nbits" else []
    source, reports = model, []
    for number, options in enumerate(runs):
        out = folder / f"{emit}{number}.onnx"
        reports.append(quantize_once(nibble, source, out, [*options, "--emit", emit, *level]))
        source = out
    elements = sum(r["quantized_elements"] for r in reports)
    bits = sum(r["quantized_elements"] * r["bits_per_weight"] for r in reports)
    return source, elements / reports[0]["weight_elements"], bits / elements


def variants(nibble, model, runs):
    """(emit, bytes of the file, coverage, bits per weight, file), nbits only where it is another file than qdq."""
    with tempfile.TemporaryDirectory() as name:
        made = {emit: quantize(nibble, model, pathlib.Path(name), runs, emit) for emit in ("qdq", "nbits")}
        if made["qdq"][0].read_bytes() == made["nbits"][0].read_bytes():
            made = {"either": made["qdq"]}
        for emit, (path, coverage, bits) in made.items():
            yield emit, path.stat().st_size, coverage, bits, path


# --- the recogniser ------------------------------------------------------------------------------------------


def alphabet(shared):
    """What each class means: the blank, the keys, a space."""
    return ["", *(shared / KEYS).read_text(encoding="utf-8").splitlines(), " "]


def read_text(probabilities, symbols):
    """Greedy CTC: the best class of each step, repeats taken once, blanks left out."""
    best = probabilities.argmax(-1)
    changed = np.append(True, best[1:] != best[:-1])
    return "".join(symbols[i] for i in best[changed])


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def characters_right(drawn, read):
    return max(0, len(drawn) - edit_distance(drawn, read))


def run_each(model, inputs):
    """A model's first output for each input, matrices that ONNX Runtime fuses computed with float activations."""
    runner = session(model, level=1)
    name = runner.get_inputs()[0].name
    return [runner.run(None, {name: x})[0][0] for x in inputs]


def joined_sqnr(reference, got):
    return sqnr(*(np.concatenate([a.ravel() for a in arrays]) for arrays in (reference, got)))


@functools.cache
def drawn_lines():
    return [ocr_lines.recogniser_input(ocr_lines.draw_line(*line)) for line in ocr_lines.LINES]


def reading_cells(answers, symbols):
    read = {line: read_text(a, symbols) for line, a in zip(ocr_lines.LINES, answers)}
    right = {line: characters_right(line[0], text) for line, text in read.items()}
    cells = {f"of {sum(len(line[0]) for line in read)} characters": sum(right.values()),
             f"of {len(read)} lines": sum(line[0] == text for line, text in read.items())}
    for kind, lines in ocr_lines.KINDS.items():
        cells[f"{kind} ({sum(len(line[0]) for line in lines)})"] = sum(right[line] for line in lines)
    return cells


class Recogniser:
    """The float model's answers, and table rows for it and its quantized forms."""

    def __init__(self, shared):
        self.model, self.symbols = shared / RECOGNISER, alphabet(shared)
        self.reference = run_each(self.model, drawn_lines())

    def float_cells(self):
        return {**reading_cells(self.reference, self.symbols), "SQNR dB": ""}

    def cells(self, path):
        answers = run_each(path, drawn_lines())
        return {**reading_cells(answers, self.symbols), "SQNR dB": f"{joined_sqnr(self.reference, answers):.1f}"}


# --- the detector --------------------------------------------------------------------------------------------


def boxes(probability):
    """(top, left, bottom, right) around each region of touching pixels above the threshold, without the tiny ones."""
    waiting = set(map(tuple, np.argwhere(probability > THRESHOLD).tolist()))
    found = []
    while waiting:
        region = [waiting.pop()]
        for row, column in region:  # grows while it is walked
            near = {(r, c) for r in range(row - 1, row + 2) for c in range(column - 1, column + 2)} & waiting
            waiting -= near
            region.extend(near)
        if len(region) >= LEAST_PIXELS:
            rows, columns = zip(*region)
            found.append((min(rows), min(columns), max(rows) + 1, max(columns) + 1))
    return sorted(found)


def overlap(a, b):
    """Intersection over union."""
    height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(0, height) * max(0, width)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    return common / (area(a) + area(b) - common)


def matched_overlaps(reference, got):
    """Overlaps of the pairs that are the same box, best pairs first, no box in two pairs."""
    pairs = sorted(((overlap(a, b), i, j) for i, a in enumerate(reference) for j, b in enumerate(got)), reverse=True)
    taken_i, taken_j, overlaps = set(), set(), []
    for value, i, j in pairs:
        if value >= SAME_BOX and i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
            overlaps.append(value)
    return overlaps


@functools.cache
def drawn_pages():
    return [ocr_lines.detector_input(ocr_lines.draw_page(*page)) for page in ocr_lines.PAGES]


class Detector:
    """The float model's answers, and table rows for it and its quantized forms."""

    def __init__(self, shared):
        self.model = shared / DETECTOR
        self.reference = run_each(self.model, drawn_pages())
        self.boxes = [boxes(a[0]) for a in self.reference]

    def float_cells(self):
        return {"boxes": sum(map(len, self.boxes)), "mean IoU": "", "missed": "", "added": "", "SQNR dB": ""}

    def cells(self, path):
        answers = run_each(path, drawn_pages())
        found = [boxes(a[0]) for a in answers]
        overlaps = [v for a, b in zip(self.boxes, found) for v in matched_overlaps(a, b)]
        expected, got = sum(map(len, self.boxes)), sum(map(len, found))
        return {"boxes": got, "mean IoU": f"{sum(overlaps) / expected:.3f}", "missed": expected - len(overlaps),
                "added": got - len(overlaps), "SQNR dB": f"{joined_sqnr(self.reference, answers):.1f}"}


# --- the page ------------------------------------------------------------------------------------------------


def float_row(subject):
    return {"weights": "float32", "emit": "", "bytes": f"{subject.model.stat().st_size:,}", "of float32": "1.00",
            "coverage": "", "bpw": "32", **subject.float_cells()}


def rows(nibble, subject, name, runs):
    """The rows of one format: cells by their column's title."""
    whole = subject.model.stat().st_size
    return [{"weights": name, "emit": emit, "bytes": f"{size:,}", "of float32": f"{size / whole:.2f}",
             "coverage": f"{coverage:.1%}", "bpw": f"{bits:.2f}", **subject.cells(path)}
            for emit, size, coverage, bits, path in variants(nibble, subject.model, runs)]


def table(nibble, subject, formats):
    found = [float_row(subject)]
    for name, runs in formats.items():
        found += rows(nibble, subject, name, runs)
    heads = ["| " + " | ".join(found[0]) + " |", "|---" * len(found[0]) + "|"]
    return "\n".join(heads + ["| " + " | ".join(map(str, row.values())) + " |" for row in found])


def prose(text):
    return "\n\n".join(textwrap.fill(" ".join(p.split()), 120, break_on_hyphens=False) for p in text.split("\n\n"))


def introduction():
    return prose(f"""Written by `./dev table` (docs/ocr_table.py); a test measures some of the rows anew. The two models are
    those of PP-OCRv4 for Chinese and English, quantized by `nibble quantize`, symmetric, without samples, and run in ONNX
    Runtime on one thread. Matrices that it fuses are computed with float activations (accuracy level 1), so what is lost
    is lost by the weights alone.

    The inputs are drawn, not photographed: {len(ocr_lines.LINES)} lines and {len(ocr_lines.PAGES)} pages in
    {len(ocr_lines.FONTS)} fonts, several sizes and colours, all straight and sharp. They tell how far a quantized model
    falls behind its float original on easy text, not how well either reads the world, and a difference of a few characters
    means nothing. They can be drawn again from the Debian packages {", ".join(ocr_lines.PACKAGES)} (digest of the font
    files: {ocr_lines.fonts_digest()}).

    *emit*: the output form; *either* where both forms are the same file. *of float32*: bytes of the whole file over the
    original's. *coverage*: the part of the weight elements that was quantized. *bpw*: bits of codes, scales, zero
    points and padding over these elements. *SQNR*: of the model's output, all inputs together.""")


def about_recogniser(classes):
    return prose(f"""A line's characters read right are its length less the edit distance between what was drawn and what
    was read (the best class of each step, repeats and blanks removed), and never less than none; they are counted over all
    lines and for each kind of line. Lines count when they are read wholly right. SQNR is of the probabilities of
    {classes:,} classes.

    The last rows give int4 only to MatMul: Conv stays float (`--skip-op Conv`), or gets int8 in a second run on the first
    one's output. Beside the rows of plain int4 in groups of 32 they show which part of the loss is the convolutions'.""")


def about_detector():
    return prose(f"""The pages hold {sum(len(places) for *_, places in ocr_lines.PAGES)} lines of text. Boxes are the
    rectangles around regions of at least {LEAST_PIXELS} touching pixels with a probability above {THRESHOLD}. A box of the
    quantized model is matched with one of the float model when their intersection over union (IoU) is at least {SAME_BOX},
    best pairs first. *mean IoU*: over the boxes of the float model, 0 for a *missed* one, which has no match; *added* ones
    have none in the float model. SQNR is of the probability map.""")


def page(nibble, shared):
    recogniser, detector = Recogniser(shared), Detector(shared)
    parts = ["# Text recognition and detection", introduction(),
             "## Recogniser", about_recogniser(len(recogniser.symbols)), table(nibble, recogniser, FORMATS | MIXTURES),
             "## Detector", about_detector(), table(nibble, detector, FORMATS)]
    return "\n\n".join(parts) + "\n"


def absent_files(shared):
    """What this needs and does not find: models, their keys, fonts."""
    models = [name for name in (RECOGNISER, DETECTOR, KEYS) if not (shared / name).is_file()]
    return models + ocr_lines.missing_fonts()


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    absent = absent_files(shared)
    if absent:
        sys.exit(f"docs/ocr.md is left as it is; absent: {', '.join(absent)}")
    TARGET.write_text(page(nibble, shared), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
