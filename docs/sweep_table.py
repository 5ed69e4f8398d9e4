#!/usr/bin/env python3
"""Sweeps the digit transformer and, where it is there, the text recogniser of PP-OCRv4; writes docs/sweeps.md and a plot
of each, docs/sweep_NAME.svg.

Usage: sweep_table.py NIBBLE [SHARED_MODELS]. The digits need the standard library only, the recogniser's inputs, drawn by
tests/oracle/ocr_lines.py, the Python of tests/oracle/requirements.txt. Without SHARED_MODELS the recogniser's part stays.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "testdata" / "digits"
TARGET = ROOT / "docs" / "sweeps.md"
GRID = ["--weights", "int4,int8", "--group-size", "32,64,128,256,channel", "--scheme", "symmetric,asymmetric"]
MARK = "<!-- recogniser -->\n"
LINES = 50


def sweep(nibble, model, *options):
    command = [str(w) for w in (nibble, "sweep", model, *GRID, *options, "--json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


# --- a table and a plot ----------------------------------------------------------------------------------------


def measured(report):
    return [c for c in report["configurations"] if "measures" in c]


def table(report):
    labelled = "accuracy" in report["measures"]
    lines = ["| configuration | bytes | of float32 | bpw | SQNR dB | top-1 |" + (" accuracy |" if labelled else "") + " front |",
             "|---" * (8 if labelled else 7) + "|"]
    for row in report["configurations"]:
        if "measures" not in row:
            lines.append(f"| {row['name']} | {row.get('same_as') or row.get('refused') or row.get('failed')} |" + " |" * (6 if labelled else 5))
            continue
        m = row["measures"]
        on = ["SQNR"] * (row["name"] in report["pareto"]["sqnr"]) + ["accuracy"] * (row["name"] in report["pareto"].get("accuracy", []))
        lines.append(f"| {row['name']} | {row['bytes']:,} | {m['size.ratio']:.3f} | {row['bits_per_weight']:.2f} | {m['sqnr']:.2f} | "
                     f"{m['top1']:.2%} |" + (f" {m['accuracy']:.2%} |" if labelled else "") + f" {', '.join(on)} |")
    return "\n".join(lines)


def ticks(low, high, count=5):
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= count)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def panel(report, measure, title, factor, left):
    """One chart of 400 x 300: a dot for each configuration, the front joined."""
    points = {c["name"]: (c["measures"]["size.ratio"] * 100, c["measures"][measure] * factor) for c in measured(report)}
    front = report["pareto"][measure]
    spans = []
    for axis in (0, 1):
        values = [p[axis] for p in points.values()]
        margin = (max(values) - min(values)) * 0.08 or 1
        spans.append((min(values) - margin, max(values) + margin))
    place = lambda p: (left + 50 + 330 * (p[0] - spans[0][0]) / (spans[0][1] - spans[0][0]),
                       260 - 220 * (p[1] - spans[1][0]) / (spans[1][1] - spans[1][0]))
    out = [f'<rect x="{left + 50}" y="40" width="330" height="220" fill="none" stroke="#999"/>',
           f'<text x="{left + 215}" y="25" text-anchor="middle" font-size="13">{title}</text>',
           f'<text x="{left + 215}" y="294" text-anchor="middle">size, % of float32</text>']
    for axis, span in enumerate(spans):
        for value in ticks(*span):
            x, y = place((value, spans[1][0]) if axis == 0 else (spans[0][0], value))
            line = f'x1="{x:.1f}" y1="260" x2="{x:.1f}" y2="40"' if axis == 0 else f'x1="{left + 50}" y1="{y:.1f}" x2="{left + 380}" y2="{y:.1f}"'
            at = f'x="{x:.1f}" y="275" text-anchor="middle"' if axis == 0 else f'x="{left + 45}" y="{y + 4:.1f}" text-anchor="end"'
            out += [f'<line {line} stroke="#eee"/>', f"<text {at}>{value:g}</text>"]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, (points[n] for n in front)))
    out.append(f'<polyline points="{joined}" fill="none" stroke="#2563a8"/>')
    for name, point in points.items():
        x, y = place(point)
        fill = "#2563a8" if name in front else "#bbb"
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}"><title>{name}: {point[0]:.1f} %, {point[1]:.2f}</title></circle>')
    return out


def plot(report, name):
    panels = panel(report, "sqnr", "SQNR, dB", 1, 0)
    width = 400
    if "accuracy" in report["pareto"]:
        panels += panel(report, "accuracy", "accuracy, %", 100, 400)
        width = 800
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="305" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="305" fill="#fff"/>', *panels, "</svg>"]
    (ROOT / "docs" / f"sweep_{name}.svg").write_text("\n".join(svg) + "\n")


def section(title, about, report, name, limits):
    plot(report, name)
    said = "\n".join(f"* `{' '.join(limit)}`: {reason}" for limit, reason in limits)
    return (f"## {title}\n\n{about}\n\n{table(report)}\n\n![size against error](sweep_{name}.svg)\n\n"
            f"What is recommended under a limit:\n\n{said}\n\n")


# --- the two sweeps ----------------------------------------------------------------------------------------------


def swept(nibble, model, limits, folder, *options):
    """The report, and what is recommended under each limit: the configurations are measured once."""
    options = [*options, "--results", pathlib.Path(folder) / "results.jsonl"]
    report = sweep(nibble, model, *options)
    return report, [(limit, sweep(nibble, model, *options, *limit)["recommended"]["reason"]) for limit in limits]


def digits(nibble):
    with tempfile.TemporaryDirectory() as folder:
        report, limits = swept(nibble, DIGITS / "digits_vit.onnx", [["--max-drop", "0.5"], ["--max-size-ratio", "0.17"],
                               ["--min-sqnr", "20"]], folder, "--data", DIGITS / "heldout.npz", "--labels", DIGITS / "labels.npy")
    about = (f"{report['samples']} labelled samples; the float model has {report['float_bytes']:,} bytes and an accuracy of "
             f"{report['float_accuracy']:.2%}.")
    return section("The digit transformer", about, report, "digits", limits)


def recogniser(nibble, shared):
    import numpy as np
    sys.path.insert(0, str(ROOT / "tests" / "oracle"))
    import ocr_lines
    fonts = [f for f in ocr_lines.FONTS if f != "hei"]
    texts = list(ocr_lines.LINES)
    for number, (text, font, size, colours) in enumerate(ocr_lines.LATIN + ocr_lines.DIGITS + ocr_lines.MIXED):
        texts.append((text, next(f for f in fonts[number % len(fonts):] + fonts if f != font), size + 3, colours))
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder) / "lines"
        inputs.mkdir()
        for number, line in enumerate(texts[:LINES]):
            np.savez(inputs / f"{number:02}.npz", x=ocr_lines.recogniser_input(ocr_lines.draw_line(*line)))
        report, limits = swept(nibble, shared / "ch_PP-OCRv4_rec_infer.onnx", [["--max-size-ratio", "0.3"], ["--min-sqnr", "20"]],
                               folder, "--data", inputs)
    about = (f"PP-OCRv4's, on {report['samples']} drawn lines of text (docs/ocr.md says how); the float model has "
             f"{report['float_bytes']:,} bytes. Top-1: the part of the time steps whose best class is that of the float model.")
    return section("The text recogniser", about, report, "recogniser", limits)


def main():
    head = ("# Two sweeps\n\nWritten by `./dev table` (docs/sweep_table.py): int4 and int8 × groups of 32, 64, 128, 256 and "
            "channels × symmetric and asymmetric,\nas `nibble sweep` reports them ([how to](sweep.md)). Bytes are its "
            "estimates; *bpw*: bits of codes, scales and zero points\nover the weights that were quantized. The fronts are "
            "joined in the plots; SQNR is of the model's output.\n\n")
    if len(sys.argv) > 2:
        rest = recogniser(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        rest = TARGET.read_text().split(MARK)[1] if TARGET.exists() else ""
    TARGET.write_text((head + digits(sys.argv[1]) + MARK + rest).rstrip("\n") + "\n")
    print(f"wrote {TARGET.relative_to(ROOT)}")


main()
