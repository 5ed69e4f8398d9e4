"""The text models on drawn lines: our executor, the readability of int8, and docs/ocr.md against ONNX Runtime.

For quantized recognisers: `nibble run` agrees with ONNX Runtime to relative RMS 1e-4 on a handful of lines; int8 per channel
reads at least as many characters as float, less 2 %; rows of docs/ocr.md, made anew, are the ones written there.
"""
import sys

from common import NotSupported, Oracle, answers, session, worst

try:
    import ocr_lines
except ModuleNotFoundError as absent:
    print(f"NOT RUN: {absent}")
    sys.exit(77)

SAMPLES = [0, 5, 15, 23, 33]  # of each kind of line, and narrow and wide ones
LIMIT = 1e-4
# What another processor's rounding may change in a cell that was rounded for the table or counts near ties.
TOLERANCE = {"SQNR dB": 0.15, "mean IoU": 0.005}
COUNTS_READ = 2
EXACT = ("weights", "emit", "bytes", "of float32", "coverage", "bpw")


def check_executor(oracle, table, recogniser, name):
    for emit, *_, path in table.variants(oracle.nibble, recogniser.model, table.FORMATS[name]):
        runner = session(path, level=1)
        feed_name = runner.get_inputs()[0].name
        errors = []
        for index in SAMPLES:
            feeds = {feed_name: table.drawn_lines()[index]}
            try:
                errors.append(worst(answers(runner, feeds), oracle.outputs(path, feeds)))
            except NotSupported as reason:
                print(f"NOT RUN: executor on recogniser {name} {emit}: {reason}")
                return
        oracle.check(f"recogniser {name} {emit}: agrees", max(errors) <= LIMIT, f"relative RMS {max(errors):.2e}")
        print(f"recogniser {name} {emit}: largest relative RMS {max(errors):.1e} on {len(errors)} lines")


def written_rows(text, title):
    """The rows of the table under a title of docs/ocr.md, as cells by their column's title."""
    section = text.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], cells)) for cells in lines[2:]]


def number(cell):
    return float(str(cell).replace(",", ""))


def differing_cells(written, measured):
    if list(written) != list(measured):
        return [f"columns {list(written)} are not {list(measured)}"]
    near = lambda column: abs(number(written[column]) - number(measured[column])) <= TOLERANCE.get(column, COUNTS_READ)
    return [f"{column} {written[column]} is not {cell}" for column, cell in measured.items()
            if written[column] != str(cell) and (column in EXACT or not near(column))]


def check_rows(oracle, table, subject, title, names, text):
    """Returns the rows measured."""
    written = written_rows(text, title)
    measured = [row for name in names for row in table.rows(oracle.nibble, subject, name, table.FORMATS[name])]
    for row in measured:
        what = f"{title} {row['weights']} {row['emit']}"
        same = [w for w in written if (w["weights"], w["emit"]) == (row["weights"], row["emit"])]
        problems = differing_cells(same[0], row) if same else ["no such row"]
        oracle.check(f"docs/ocr.md: {what}", not problems, "; ".join(problems))
    return measured


def check_int8_reads(oracle, recogniser, rows):
    column = next(c for c in rows[0] if c.endswith(" characters"))
    before = recogniser.float_cells()[column]
    for row in rows:
        oracle.check(f"recogniser {row['weights']} {row['emit']}: reads", row[column] >= 0.98 * before,
                     f"{row[column]} characters right, {before} in float")


def main():
    oracle = Oracle()
    sys.path.insert(0, str(oracle.source / "docs"))
    import ocr_table as table
    absent = table.absent_files(oracle.shared)
    if absent:
        print(f"NOT RUN: absent: {', '.join(absent)}")
        sys.exit(77)
    recogniser, detector = table.Recogniser(oracle.shared), table.Detector(oracle.shared)
    for name in ("int8 per channel", "int4 group 32"):
        check_executor(oracle, table, recogniser, name)
    text = (oracle.source / "docs" / "ocr.md").read_text(encoding="utf-8")
    if ocr_lines.fonts_digest() in text:
        rows = check_rows(oracle, table, recogniser, "Recogniser", ["int8 per channel", "int4 group 32"], text)
        check_rows(oracle, table, detector, "Detector", ["int8 per channel", "int4 group 64"], text)
    else:
        print("NOT RUN: rows of docs/ocr.md: they were measured with other versions of the fonts")
        rows = table.rows(oracle.nibble, recogniser, "int8 per channel", table.FORMATS["int8 per channel"])
    check_int8_reads(oracle, recogniser, [row for row in rows if row["weights"] == "int8 per channel"])
    oracle.finish()


main()
