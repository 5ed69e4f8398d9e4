"""Counts the nodes that simplifiers leave of every real model and digit net and writes docs/nodes.md.

Usage: nodes_table.py NIBBLE SHARED_MODELS, in the Python environment of tests/oracle. Nodes are counted in bodies and
functions too; Constant nodes, which are weights, are not.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx
import onnxruntime as ort
import onnxsim
import onnxslim

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from common import DIGIT_NETS, REAL_MODELS, feeds_for, session  # noqa: E402

TARGET = ROOT / "docs" / "nodes.md"
HEAD = """# Nodes that are left

Written by `./dev table` (docs/nodes_table.py); a test counts anew. Nodes of the graph, its bodies and functions, Constant
nodes aside: of the model, of what `nibble fuse` (its default pipeline, target `portable`) leaves, and of what onnxsim and
onnxslim leave, Python packages for the same purpose. The last columns: `nibble fuse --pipeline onnxruntime --target
onnxruntime-cpu` beside what ONNX Runtime itself makes of the model when it loads it, at its level `extended`. "fails": the
simplifier raised an error, or ONNX Runtime does not run what it made.

| model | before | nibble | onnxsim | onnxslim | nibble, onnxruntime-cpu | ONNX Runtime |
|---|---|---|---|---|---|---|
"""
# Where Nibble leaves more than the better of the two.
REASONS = ROOT / "docs" / "nodes_reasons.md"


def count(message):
    """Of a graph or function."""
    total = 0
    for node in message.node:
        total += node.op_type != "Constant"
        for attribute in node.attribute:
            total += count(attribute.g) if attribute.HasField("g") else 0
            total += sum(count(g) for g in attribute.graphs)
    return total


def count_model(model):
    return count(model.graph) + sum(count(f) for f in model.functions)


def nibble_nodes(nibble, path, folder, *options):
    out = folder / "nibble.onnx"
    done = subprocess.run([nibble, "fuse", path, "-o", out, *options, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path.stem}: exit {done.returncode}\n{done.stderr}")
    json.loads(done.stdout)
    return count_model(onnx.load(out))


def simplified(make, path, folder):
    """Nodes left, or "fails"."""
    out = folder / "other.onnx"
    try:
        onnx.save(make(onnx.load(path)), out)
        session(out).run(None, feeds_for(path, 0))
        return count_model(onnx.load(out))
    except Exception:  # whatever those packages raise
        return "fails"


def onnxruntime_nodes(path, folder):
    out = folder / "runtime.onnx"
    session(path, optimized=out)
    return count_model(onnx.load(out))


def row_of(nibble, path):
    """(before, nibble, onnxsim, onnxslim, nibble for ONNX Runtime, ONNX Runtime)"""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        return [count_model(onnx.load(path)), nibble_nodes(nibble, path, folder),
                simplified(lambda m: onnxsim.simplify(m)[0], path, folder), simplified(onnxslim.slim, path, folder),
                nibble_nodes(nibble, path, folder, "--pipeline", "onnxruntime", "--target", "onnxruntime-cpu"),
                onnxruntime_nodes(path, folder)]


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    ort.set_default_logger_severity(3)
    paths = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in DIGIT_NETS] + [shared / f"{n}.onnx" for n in REAL_MODELS]
    text = HEAD
    for path in paths:
        text += f"| {path.stem} | " + " | ".join(map(str, row_of(nibble, path))) + " |\n"
        print(text.splitlines()[-1], file=sys.stderr)
    TARGET.write_text(text + "\n" + REASONS.read_text())


if __name__ == "__main__":
    main()
