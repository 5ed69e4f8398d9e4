"""Makes every real model and digit net float16 and writes docs/float16.md.

Usage: float16_table.py NIBBLE SHARED_MODELS, in the Python environment of tests/oracle. Both models run in ONNX Runtime on
three seeded samples of tests/oracle/common.py; of outputs below LOW dB all values between are compared too.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from common import DIGIT_NETS, REAL_MODELS, answers, feeds_for, session, sqnr  # noqa: E402

TARGET = ROOT / "docs" / "float16.md"
SEEDS = (0, 3, 4)
LOW = 55
LAYERS = 4  # named for each output that is low
WANTED = 50  # dB, asked of the tool
OPSET = 17  # ONNX Runtime 1.30 crashes on half Transposes of older ones
HEAD = f"""# float16

Written by `./dev table` (docs/float16_table.py): `nibble convert model.onnx -o half.onnx --type fp16 --min-sqnr {WANTED} --data SAMPLES`
on the same samples that the table measures, both models in ONNX Runtime, on three seeded inputs (noise, random tokens, for the text detector
strokes on white). *half*, *float32*: nodes; *Casts*: between the two; *saturated*, *to zero*: values of weights that float16
can't hold; *SQNR*: of the output that suffers most, on the worst input.

`--min-sqnr` is measured by Nibble's executor, and ONNX Runtime's figure can be more than 1 dB higher or lower: on silero_vad_v5 it was 2 dB lower, and
fr_age made with 47 had 37.6 there. Ask for more than is needed, and measure in the runtime that counts. What makes the difference was not looked into.
Keeping one operator's type float32 did not help where SQNR falls most: Gemm in fr_age, Sigmoid in the text detector, HardSigmoid in the recogniser; Conv in
silero_vad_v5 did (41.3 to 58.2).

| model | half | float32 | Casts | saturated | to zero | SQNR dB | output |
|---|---|---|---|---|---|---|---|
"""
LOSSES = f"""
## Where it is lost

For each output below {LOW} dB, the layers on its way where SQNR falls most: of what the layer reads (its worst input that is no
weight), and of what it makes. *signal over spread*: RMS of what it makes over the RMS of what it makes less the mean of each
channel (the second axis): where it is large the numbers stand far from 0, and float16 rounds by what they are, not by what they tell; empty where
each channel has one number.

| model, output | layer | operator | SQNR in | SQNR out | RMS out | signal over spread |
|---|---|---|---|---|---|---|
"""


def opset_of(path):
    return next(o.version for o in onnx.load(path, load_external_data=False).opset_import if o.domain in ("", "ai.onnx"))


def convert(nibble, model, out, *options):
    done = subprocess.run([nibble, "convert", model, "-o", out, "--type", "fp16", "--opset", str(max(OPSET, opset_of(model))), "--json",
                           *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["half"]


def lowest(model, half):
    """SQNR of each output on its worst sample, and that sample."""
    out, before, after = {}, session(model), session(half)
    for seed in SEEDS:
        feeds = feeds_for(model, seed)
        expected, got = answers(before, feeds), answers(after, feeds)
        for name in expected:
            found = (float(sqnr(expected[name], got[name])), seed)
            out[name] = min(out.get(name, found), found)
    return out


def all_values(path, names, feeds):
    """The tensors that the main graph's nodes make, of these names."""
    model = onnx.load(path)
    have = {o.name for o in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name in names and name not in have:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
                have.add(name)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return answers(ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]), feeds)


def ancestors(graph, output):
    made = {name: node for node in graph.node for name in node.output}
    todo, seen, nodes = [output], set(), []
    while todo:
        name = todo.pop()
        if name in seen or name not in made:
            continue
        seen.add(name)
        nodes.append(made[name])
        todo.extend(made[name].input)
    return nodes


def spread(values):
    values = np.asarray(values, np.float64)
    axes = tuple(i for i in range(values.ndim) if i != 1)
    rest = values - values.mean(axis=axes if values.ndim > 1 else None, keepdims=True)
    return float(np.sqrt((values ** 2).mean())), float(np.sqrt((values ** 2).mean() / max((rest ** 2).mean(), 1e-300)))


def losses(model, half, output, seed):
    """(fall, node, SQNR in, SQNR out, RMS, signal over spread), those of the largest fall first."""
    feeds, graph = feeds_for(model, seed), onnx.load(model).graph
    names = {n for node in graph.node for n in node.output} & {n for node in onnx.load(half).graph.node for n in node.output}
    expected, got = all_values(model, names, feeds), all_values(half, names, feeds)
    quality = {n: min(float(sqnr(expected[n], got[n])), 99.0) for n in names & expected.keys() & got.keys()
               if np.asarray(expected[n]).dtype.kind == "f" and expected[n].shape == got[n].shape and expected[n].size}
    rows = []
    for node in ancestors(graph, output):
        makes = [n for n in node.output if n in quality]
        if not makes:
            continue
        reads = min([quality.get(n, 99.0) for n in node.input if n in quality] or [99.0])
        at = min(makes, key=quality.get)
        rows.append((reads - quality[at], node, reads, quality[at], *spread(expected[at])))
    return sorted(rows, key=lambda r: -r[0])


def main():
    nibble, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    paths = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in DIGIT_NETS] + [shared / f"{n}.onnx" for n in REAL_MODELS]
    table, where = [], []
    with tempfile.TemporaryDirectory() as folder:
        half = pathlib.Path(folder) / "half.onnx"
        for model in paths:
            samples = pathlib.Path(folder) / model.stem
            samples.mkdir()
            for seed in SEEDS:
                np.savez(samples / f"{seed}.npz", **feeds_for(model, seed))
            report = convert(nibble, model, half, "--min-sqnr", str(WANTED), "--data", str(samples), "--quiet")
            found = lowest(model, half)
            name = min(found, key=found.get)
            lost = lambda key: sum(w[key] for w in report["losses"])
            table.append(f"| {model.stem} | {report['nodes']} | {len(report['kept'])} | {report['casts']} | {lost('saturated'):,} | "
                         f"{lost('to_zero'):,} | {found[name][0]:.1f} | {name} |")
            print(table[-1], flush=True)
            for output, (quality, seed) in sorted(found.items(), key=lambda f: f[1]):
                if quality >= LOW:
                    continue
                for fall, node, reads, makes, rms, ratio in losses(model, half, output, seed)[:LAYERS]:
                    if fall < 1:
                        break
                    first = "" if reads < 99 else "exact"
                    where.append(f"| {model.stem}, {output} ({quality:.1f}) | {(node.name or node.output[0])[-56:]} | {node.op_type} | "
                                 f"{first or f'{reads:.1f}'} | {makes:.1f} | {rms:.3g} | {f'{ratio:.1f}' if ratio < 1e6 else ''} |")
                    print(where[-1], flush=True)
    TARGET.write_text(HEAD + "\n".join(table) + "\n" + LOSSES + "\n".join(where) + "\n")


if __name__ == "__main__":
    main()
