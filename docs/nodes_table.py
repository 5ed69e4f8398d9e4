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
BLOCKS_HEAD = """
## Blocks that are recognised

Each spelled-out block has one operator that it is told by. Counted before and after `nibble fuse --pipeline onnxruntime
--target onnxruntime-cpu` of the model as `nibble convert` with these options makes it; last, the operators that stand for
the blocks then. gpt2_kv_random comes with fused operators, is decomposed and fused again; its eleventh normalization is that
of the embedding. None of the real models spells out a Gelu or an RMS normalization.

| model | convert | block | told by | before | after | became |
|---|---|---|---|---|---|---|
"""
NORMS = ["LayerNormalization", "SkipLayerNormalization"]
GPT2 = ["--decompose", "Attention,EmbedLayerNormalization,FastGelu,SkipLayerNormalization"]
# (model, options of convert, block, the operator it is told by, operators that it becomes)
BLOCKS = [
    ("digits_vit", ["--opset", "20"], "LayerNormalization", "Sqrt", NORMS),
    ("digits_vit", ["--opset", "20"], "Gelu", "Erf", ["Gelu", "BiasGelu"]),
    ("bert_mlm_random", ["--opset", "17"], "LayerNormalization", "Sqrt", NORMS),
    ("ch_PP-OCRv4_rec_infer", ["--opset", "17"], "LayerNormalization", "Sqrt", NORMS),
    ("t5_encoder_random", ["--opset", "17"], "LayerNormalization", "Sqrt", NORMS),
    ("t5_decoder_random", ["--opset", "17"], "LayerNormalization", "Sqrt", NORMS),
    ("gpt2_kv_random", GPT2, "attention", "Softmax", ["Attention"]),
    ("gpt2_kv_random", GPT2, "LayerNormalization", "Sqrt", NORMS),
    ("gpt2_kv_random", GPT2, "Gelu", "Tanh", ["FastGelu"]),
]
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


def block_row(nibble, path, options, told_by, made):
    """(before, after, nodes of the operators that it became)"""
    with tempfile.TemporaryDirectory() as name:
        given, out = pathlib.Path(name) / "given.onnx", pathlib.Path(name) / "out.onnx"
        fuse = ["--pipeline", "onnxruntime", "--target", "onnxruntime-cpu"]
        for command in (["convert", path, "-o", given, *options], ["fuse", given, "-o", out, *fuse]):
            done = subprocess.run([nibble, *map(str, command)], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{path.stem}: exit {done.returncode}\n{done.stderr}")
        before, after = ([n.op_type for n in onnx.load(p).graph.node] for p in (given, out))
        return before.count(told_by), after.count(told_by), sum(after.count(m) for m in made)


def blocks_table(nibble, shared):
    text = BLOCKS_HEAD
    for model, options, block, told_by, made in BLOCKS:
        folder = ROOT / "testdata" / "digits" if model in DIGIT_NETS else shared
        before, after, became = block_row(nibble, folder / f"{model}.onnx", options, told_by, made)
        text += (f"| {model} | `{' '.join(options)}` | {block} | {told_by} | {before} | {after} | "
                 f"{became} {' or '.join(made)} |\n")
    return text


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    ort.set_default_logger_severity(3)
    paths = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in DIGIT_NETS] + [shared / f"{n}.onnx" for n in REAL_MODELS]
    text = HEAD
    for path in paths:
        text += f"| {path.stem} | " + " | ".join(map(str, row_of(nibble, path))) + " |\n"
        print(text.splitlines()[-1], file=sys.stderr)
    TARGET.write_text(text + "\n" + REASONS.read_text() + blocks_table(nibble, shared))


if __name__ == "__main__":
    main()
