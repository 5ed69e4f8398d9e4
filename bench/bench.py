"""Measures what the budgets name, as ratios taken in one run. Usage: bench.py BUILD_FOLDER [--only PART]
[--gigabytes N] [--inline] [--json FILE]

  weights    weight-only INT4 of a generated float32 language model against `cp` + `sync` of its files, alternating,
             median of 5, and the peak memory of the quantizing process
  speed      the quantized language model in ONNX Runtime, one token at a time, against the float one
  executor   time per sample against ONNX Runtime at one and two threads and against ONNX's Python reference evaluator,
             on the digit nets, 64 digits at a time, and, where the folder is there, real models
  passes     the default pipeline over generated models of 1,000, 10,000 and 50,000 nodes: how its time grows with nodes
  sweep      `nibble sweep` of the digit transformer and, where it is there, a text recogniser on random lines, int4 and
             int8 in five group sizes and two schemes, against a `nibble quantize` and a `nibble diff` for each
  int8       static INT8 beside ONNX Runtime's quantize_static: time and peak memory of both, and speed of their models
  start-up   nibble --help
Runs in the test-only Python environment (numpy, onnx, onnxruntime).
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from feeds import OPEN_DIMS, feeds_of
from many_nodes import many_nodes
from static_int8 import bench_int8

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "models"
DIGITS_AT_ONCE = 64
EXECUTOR_MODELS = [*OPEN_DIMS, "silero_vad_v5", "dtln_model_1", "mnist", "super_resolution", "fr_age",
                   "fr_detect", "fr_feature", "fr_pose", "version-RFB-320"]


def seconds(command):
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    elapsed = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return elapsed, done.stdout


WIDTH, INNER, VOCABULARY = 2048, 5632, 32000
INLINE_BYTES = 2**31 - 2**26  # a protobuf message holds less than 2 GiB


def layer_shapes(gigabytes):
    """(name, dims) of a language model's weights: a table, then layers of seven matrices until the size is reached."""
    yield "embed", (VOCABULARY, WIDTH)
    left = gigabytes * 2**30 / 4 - VOCABULARY * WIDTH
    layer = 0
    while left > 0:
        for name, dims in (("q", (WIDTH, WIDTH)), ("k", (WIDTH, WIDTH)), ("v", (WIDTH, WIDTH)), ("o", (WIDTH, WIDTH)),
                           ("gate", (WIDTH, INNER)), ("up", (WIDTH, INNER)), ("down", (INNER, WIDTH))):
            yield f"layers.{layer}.{name}", dims
            left -= dims[0] * dims[1]
        layer += 1


def generate(folder, gigabytes, inline):
    """Gather, then a chain of MatMuls (q, k, v and o one after another, gate beside up). Weights are made and written a
    tensor at a time, into an external file or into the model itself."""
    random = np.random.default_rng(0)
    nodes, initializers, offset, value, count = [], [], 0, "x", 0
    data = None if inline else open(folder / "big.onnx.data", "wb")
    for name, dims in layer_shapes(gigabytes):
        weight = random.standard_normal(dims, dtype=np.float32) * np.float32(0.02)
        tensor = TensorProto(name=f"{name}.weight", data_type=TensorProto.FLOAT, dims=dims)
        if inline:
            if offset + weight.nbytes > INLINE_BYTES:
                break
            tensor.raw_data = weight.tobytes()
        else:
            data.write(weight.tobytes())
            tensor.data_location = TensorProto.EXTERNAL
            for key, entry in (("location", "big.onnx.data"), ("offset", offset), ("length", weight.nbytes)):
                tensor.external_data.add(key=key, value=str(entry))
        offset += weight.nbytes
        count += weight.size
        initializers.append(tensor)
        if name == "embed":
            nodes.append(helper.make_node("Gather", [tensor.name, "ids"], [value], name=name))
            continue
        if name.endswith("gate"):
            nodes.append(helper.make_node("MatMul", [value, tensor.name], ["gate"], name=name))
            continue
        made = f"{name}.out"
        nodes.append(helper.make_node("MatMul", [value, tensor.name], [made], name=name))
        if name.endswith("up"):
            nodes.append(helper.make_node("Mul", ["gate", made], [made + "2"], name=name + ".mul"))
            made += "2"
            nodes[-3].output[0] = nodes[-1].input[0] = f"{name}.gate"
        value = made
    if data is not None:
        data.close()
    graph = helper.make_graph(nodes, "big", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["tokens"])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)], initializers)
    path = folder / "big.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)],
                                       ir_version=10).SerializeToString())
    return path, count


def bench_weights(nibble, folder, gigabytes, inline=False):
    model, weights = generate(folder, gigabytes, inline)
    files = " ".join(str(f) for f in folder.glob("big.onnx*"))
    (folder / "copy").mkdir()
    copy = ["sh", "-c", f"cp --reflink=never {files} {folder}/copy/ && sync {folder}/copy/*"]
    result = {"gigabytes": round(weights * 4 / 2**30, 2), "weights": "inline" if inline else "external"}
    for threads in (1, 2):
        quantize = [nibble, "quantize", str(model), "-o", f"{folder}/int4.onnx", "--weights", "int4", "--group-size", "32",
                    "--threads", str(threads), "--json"]
        times, copies, peak = [], [], 0
        for run in range(6):
            copied, _ = seconds(copy)
            took, out = seconds(quantize)
            if run > 0:  # the first is a warm-up
                copies.append(copied)
                times.append(took)
            peak = max(peak, json.loads(out)["peak_rss_bytes"])
        result[f"threads_{threads}"] = {
            "time_over_cp": round(statistics.median(times) / statistics.median(copies), 2),
            "million_weights_per_second": round(weights / statistics.median(times) / 1e6),
            "peak_mib": round(peak / 2**20, 1),
            "budget_mib": round(256 + VOCABULARY * WIDTH / 2**20, 1),  # the table's int8 rows
        }
    for file in [*folder.glob("big.onnx*"), *folder.glob("int4.onnx*"), *(folder / "copy").iterdir()]:
        file.unlink()
    (folder / "copy").rmdir()
    return result


SPEED_FORMS = {"int4 32 qdq": [], "int4 128 qdq": ["--group-size", "128"], "int4 32 asymmetric qdq": ["--scheme", "asymmetric"],
               "int4 32 nbits": ["--emit", "nbits"], "int8 channel qdq": ["--weights", "int8", "--group-size", "channel"],
               "int8 32 qdq": ["--weights", "int8"], "int8 channel nbits": ["--weights", "int8", "--group-size", "channel", "--emit", "nbits"],
               "int4 512 qdq": ["--group-size", "512"]}


def bench_speed(nibble, folder, threads=1, rounds=15):
    """Time of the quantized language model in ONNX Runtime, one token, over the float model's; and whether any verdict
    said that a form would be slow."""
    model, _ = generate(folder, 0.9, inline=False)
    result = {}
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    feeds = {"ids": np.array([5])}

    def once(session):
        begin = time.perf_counter()
        session.run(None, feeds)
        return time.perf_counter() - begin

    original = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for name, words in SPEED_FORMS.items():
        _, out = seconds([nibble, "quantize", str(model), "-o", f"{folder}/fast.onnx", "--json", *words])
        warned = any("on every run" in v.get("warning", "") for v in json.loads(out)["verdicts"])
        begin = time.perf_counter()
        session = ort.InferenceSession(f"{folder}/fast.onnx", options, providers=["CPUExecutionProvider"])
        loaded = time.perf_counter() - begin
        once(original), once(session)
        pairs = [(once(original), once(session)) for _ in range(rounds)]
        ratio = statistics.median(p[1] for p in pairs) / statistics.median(p[0] for p in pairs)
        result[name] = {"time_over_float": round(ratio, 3), "load_seconds": round(loaded, 1), "slowness_announced": warned}
    return result


def reference_seconds(path, feeds):
    """Of ONNX's Python reference evaluator, one run after one to warm up; None where it can't run the model."""
    try:
        evaluator = ReferenceEvaluator(str(path))
        evaluator.run(None, feeds)
        begin = time.perf_counter()
        evaluator.run(None, feeds)
        return time.perf_counter() - begin
    except Exception as error:  # whatever its Python code raises
        print(f"the reference evaluator can't run {path.stem}: {str(error)[:100]}", file=sys.stderr)
        return None


def bench_executor(nibble, path, folder, batch):
    """Ratio of median times per sample, by threads, over 10 samples or, where those are short, up to 100. The first
    sample of each is a warm-up."""
    result, random = {}, np.random.default_rng(1)
    for threads in (1, 2):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors only
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        inputs, times = folder / f"{path.stem}_{batch}_{threads}", []
        inputs.mkdir()
        while len(times) < 10 or (sum(times[1:]) < 0.5 and len(times) < 100):
            feeds = feeds_of(session, path, batch, random)
            np.savez(inputs / f"{len(times):03}.npz", **feeds)
            begin = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - begin)
        _, out = seconds([nibble, "run", str(path), "--data", str(inputs), "--threads", str(threads), "--json"])
        ours = json.loads(out)["median_seconds_per_sample"]
        result[f"over_onnxruntime_{threads}"] = round(ours / statistics.median(times[1:]), 2)
        if threads == 1:
            reference = reference_seconds(path, feeds)
            result["reference_evaluator_over_ours"] = round(reference / ours, 1) if reference else None
    return result


def bench_passes(nibble, folder, rounds=3):
    rows, base = {}, None
    for count in (1000, 10000, 50000):
        path = folder / f"nodes_{count}.onnx"
        model = many_nodes(count)
        onnx.save(model, path)
        command = [nibble, "fuse", str(path), "-o", str(folder / "out.onnx"), "--json"]
        times = [seconds(command)[0] for _ in range(rounds)]
        spent, nodes = statistics.median(times), len(model.graph.node)
        base = base or spent / nodes
        rows[f"{count} nodes"] = {"nodes": nodes, "time_per_node_against_the_smallest": round(spent / nodes / base, 2),
                                  "seconds": round(spent, 2)}
    return rows


SWEEP_AXES = {"--weights": ("int4", "int8"), "--group-size": ("32", "64", "128", "256", "channel"),
              "--scheme": ("symmetric", "asymmetric")}


def bench_sweep(nibble, folder):
    """Times of one sweep over those of its configurations one by one, which write and read each model; the part of the
    sweep that is the float model's run is what would be spent again for each configuration otherwise."""
    digits = ROOT / "testdata" / "digits"
    rows = {"digits_vit, 400 samples": (digits / "digits_vit.onnx", ["--data", digits / "heldout.npz", "--labels", digits / "labels.npy"])}
    recogniser = SHARED / "ch_PP-OCRv4_rec_infer.onnx"
    if recogniser.exists():
        rows["PP-OCR recogniser, 10 samples of 48x320"] = (
            recogniser, ["--random", "10", *(w for dim in dims_of(recogniser) for w in ("--dim", dim))])
    result = {}
    for name, (model, samples) in rows.items():
        grid = [w for flag, words in SWEEP_AXES.items() for w in (flag, ",".join(words))]
        together, _ = seconds([nibble, "sweep", str(model), *map(str, samples), *grid, "-q"])
        separately = 0
        for words in itertools.product(*SWEEP_AXES.values()):
            options = [w for pair in zip(SWEEP_AXES, words) for w in pair]
            separately += seconds([nibble, "quantize", str(model), "-o", f"{folder}/q.onnx", *options, "-q"])[0]
            separately += seconds([nibble, "diff", str(model), f"{folder}/q.onnx", *map(str, samples), "-q"])[0]
        result[name] = {"time_over_separate_runs": round(together / separately, 2), "seconds": round(together, 1)}
    return result


def dims_of(path):
    """NAME=SIZE for the dimensions of a model's first input that OPEN_DIMS names, after the batch."""
    shape = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    wanted = OPEN_DIMS[path.stem]
    return [f"{dim.dim_param}={size}" for dim, size in zip(list(shape)[1:], wanted) if dim.dim_param]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the model with external weights; default 1")
    parser.add_argument("--inline", action="store_true", help="also a model just under 2 GiB with its weights inline")
    parser.add_argument("--only", choices=["executor", "weights", "speed", "passes", "sweep", "int8"])
    parser.add_argument("--json")
    args = parser.parse_args()
    nibble = f"{args.build}/tools/nibble"
    results = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("NIBBLE_BENCH_DIR")) as name:
        folder = pathlib.Path(name)
        start = [seconds([nibble, "--help"])[0] for _ in range(11)]
        results["start_up_milliseconds"] = round(statistics.median(start) * 1000, 1)
        if args.only in (None, "executor"):
            digits = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in ("digits_cnn", "digits_vit")]
            rows = [(m, batch) for m in digits for batch in (1, DIGITS_AT_ONCE)]
            if SHARED.is_dir():
                rows += [(SHARED / f"{n}.onnx", 1) for n in EXECUTOR_MODELS]
            else:
                print("the folder of real models is absent: the executor is measured on the digit nets only")
            results["executor"] = {m.stem + (f", {batch} at once" if batch > 1 else ""): bench_executor(nibble, m, folder, batch)
                                   for m, batch in rows}
        if args.only in (None, "weights"):
            results["weights"] = bench_weights(nibble, folder, args.gigabytes)
            if args.inline:
                results["weights_inline"] = bench_weights(nibble, folder, 2.5, inline=True)
        if args.only in (None, "speed"):
            results["speed"] = bench_speed(nibble, folder)
        if args.only in (None, "passes"):
            results["passes"] = bench_passes(nibble, folder)
        if args.only in (None, "sweep"):
            results["sweep"] = bench_sweep(nibble, folder)
        if args.only in (None, "int8"):
            results["int8"] = bench_int8(nibble, folder)
    print(json.dumps(results, indent=2))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=2) + "\n")


main()
