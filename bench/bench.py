"""Measures what the budgets name, as ratios taken in one run. Usage: bench.py BUILD_FOLDER [--gigabytes N] [--json FILE]

  weights    weight-only INT4 of a generated float32 model against `cp` + `sync` of its files, alternating, median of 5,
             and the peak memory of the quantizing process
  executor   time per sample against ONNX Runtime, one thread each, on the digit nets and, where the folder is there,
             real models
  start-up   nibble --help
Runs in the test-only Python environment (numpy, onnx, onnxruntime).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "models"
EXECUTOR_MODELS = ["mnist", "super_resolution", "fr_age", "fr_detect", "fr_feature", "fr_pose", "version-RFB-320"]


def seconds(command):
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    elapsed = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return elapsed, done.stdout


def generate(folder, gigabytes, width=4096):
    """A chain of MatMuls [width, width] with its weights in an external file, written a tensor at a time."""
    count = max(1, int(gigabytes * 2**30 // (width * width * 4)))
    random = np.random.default_rng(0)
    nodes, initializers, offset = [], [], 0
    with open(folder / "big.onnx.data", "wb") as data:
        for i in range(count):
            weight = random.standard_normal((width, width), dtype=np.float32) * np.float32(0.02)
            data.write(weight.tobytes())
            tensor = TensorProto(name=f"layers.{i}.weight", data_type=TensorProto.FLOAT, dims=[width, width],
                                 data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "big.onnx.data"), ("offset", offset), ("length", weight.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"layers.{i}.weight"], [f"x{i + 1}"], name=f"layers.{i}"))
            offset += weight.nbytes
    graph = helper.make_graph(nodes, "big", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["rows", width])],
                              [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, ["rows", width])],
                              initializers)
    path = folder / "big.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)],
                                       ir_version=10).SerializeToString())
    return path, count * width * width


def bench_weights(nibble, folder, gigabytes):
    model, weights = generate(folder, gigabytes)
    copy = ["sh", "-c", f"cp --reflink=never {folder}/big.onnx {folder}/big.onnx.data {folder}/copy/ && sync {folder}/copy/*"]
    (folder / "copy").mkdir()
    result = {"gigabytes": round(weights * 4 / 2**30, 2)}
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
            peak = json.loads(out)["peak_rss_bytes"]
        result[f"threads_{threads}"] = {
            "time_over_cp": round(statistics.median(times) / statistics.median(copies), 2),
            "million_weights_per_second": round(weights / statistics.median(times) / 1e6),
            "peak_mib": round(peak / 2**20, 1),
            "budget_mib": 256 + 4096 * 4096 // 2 // 2**20,
        }
    return result


def feeds_of(session):
    random = np.random.default_rng(1)
    feeds = {}
    for spec in session.get_inputs():
        dims = [d if isinstance(d, int) and d > 0 else 1 for d in spec.shape]
        feeds[spec.name] = random.standard_normal(dims, dtype=np.float32)
    return feeds


def bench_executor(nibble, path, folder, samples=20):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = feeds_of(session)
    session.run(None, feeds)
    times = []
    for _ in range(samples):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    _, out = seconds([nibble, "run", str(path), "--random", str(samples), "--threads", "1", "-o", f"{folder}/out.npz", "--json"])
    ours = json.loads(out)["median_seconds_per_sample"]
    return {"ours_over_onnxruntime": round(ours / statistics.median(times), 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--json")
    args = parser.parse_args()
    nibble = f"{args.build}/tools/nibble"
    results = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("NIBBLE_BENCH_DIR")) as name:
        folder = pathlib.Path(name)
        start = [seconds([nibble, "--help"])[0] for _ in range(11)]
        results["start_up_milliseconds"] = round(statistics.median(start) * 1000, 1)
        models = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in ("digits_cnn", "digits_vit")]
        if SHARED.is_dir():
            models += [SHARED / f"{n}.onnx" for n in EXECUTOR_MODELS]
        else:
            print("the folder of real models is absent: the executor is measured on the digit nets only")
        results["executor"] = {m.stem: bench_executor(nibble, m, folder) for m in models}
        results["weights"] = bench_weights(nibble, folder, args.gigabytes)
    print(json.dumps(results, indent=2))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=2) + "\n")


main()
