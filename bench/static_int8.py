"""Static INT8 beside ONNX Runtime's quantize_static: time and memory of making the models, and their speed."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

from feeds import feeds_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
THEIRS = pathlib.Path(__file__).resolve().parent / "quantize_static.py"
# Dims of a sample where the model leaves them open, after the batch: smaller than where speed alone is measured.
SMALL_DIMS = {"ch_PP-OCRv4_det_infer": (3, 320, 320), "ch_PP-OCRv4_rec_infer": (3, 48, 320),
              "ch_ppocr_mobile_v2.0_cls_infer": (3, 48, 192), "bert_mlm_random": (64,)}
MODELS = ["fr_detect", "fr_feature", "fr_pose", "version-RFB-320", *SMALL_DIMS]
SAMPLES = 12


def cost(command, folder):
    """Seconds and peak bytes of one process, or nothing when it fails."""
    begin = time.perf_counter()
    child = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return None if child.returncode != 0 else (time.perf_counter() - begin, usage.ru_maxrss * 1024)


def samples_for(path, folder):
    """Archives to calibrate on; returns the last one's arrays."""
    folder.mkdir()
    random, session = np.random.default_rng(2), runtime(path)
    for i in range(SAMPLES):
        feeds = feeds_of(session, path, 1, random, SMALL_DIMS)
        np.savez(folder / f"{i:03}.npz", **feeds)
    return feeds


def runtime(model, exact=False):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception:  # the model does not load
        return None


def median_ratios(ours, others, feeds, seconds=4):
    """Time of `ours` over that of each other session, run in turns."""
    def once(session):
        begin = time.perf_counter()
        session.run(None, feeds)
        return time.perf_counter() - begin

    sessions = [ours, *others]
    for session in sessions:
        once(session)
    times, begin = [[] for _ in sessions], time.perf_counter()
    while len(times[0]) < 15 or (time.perf_counter() - begin < seconds and len(times[0]) < 400):
        for session, row in zip(sessions, times):
            row.append(once(session))
    return [statistics.median(times[0]) / statistics.median(row) for row in times[1:]]


def bench_int8(nibble, folder):
    """Per model: our time and peak memory over theirs, and the time of our model in ONNX Runtime (one thread) over the
    float one's, theirs, theirs in a session whose sums don't saturate, and ours with 7-bit int8 weights."""
    nibble = pathlib.Path(nibble).resolve()
    paths = [ROOT / "testdata" / "digits" / f"{n}.onnx" for n in ("digits_cnn", "digits_vit")]
    shared = ROOT.parent / "shared" / "models"
    if shared.is_dir():
        paths += [shared / f"{n}.onnx" for n in MODELS]
    else:
        print("the folder of real models is absent: int8 is measured on the digit nets only", file=sys.stderr)
    rows = {}
    for path in paths:
        place = folder / path.stem
        place.mkdir()
        samples, source = place / "samples", place / "opset17.onnx"
        feeds = samples_for(path, samples)
        cost([nibble, "convert", path, "-o", source, "--opset", "17", "-q"], place)  # what they need for scales by channel
        options = ["--activations", "uint8", "--target", "onnxruntime-cpu", "--calib", samples, "-q"]
        ours, seven, theirs = (place / f"{n}.onnx" for n in ("ours", "seven", "theirs"))
        spent = cost([nibble, "quantize", path, "-o", ours, *options], place)
        cost([nibble, "quantize", path, "-o", seven, "--weights", "int8", *options], place)
        other = cost([sys.executable, THEIRS, source, samples, theirs], place)
        sessions = {"float": runtime(path), "theirs": runtime(theirs) if other else None,
                    "theirs_exact": runtime(theirs, exact=True) if other else None, "ours_7_bit": runtime(seven)}
        sessions = {name: session for name, session in sessions.items() if session is not None}
        row = {}
        if other:
            row = {"time_over_theirs": round(spent[0] / other[0], 2), "memory_over_theirs": round(spent[1] / other[1], 2)}
        for name, ratio in zip(sessions, median_ratios(runtime(ours), sessions.values(), feeds)):
            row[f"run_over_{name}"] = round(ratio, 2)
        rows[path.stem] = row
    columns = sorted({name for row in rows.values() for name in row})
    rows["median"] = {name: round(statistics.median(r[name] for r in rows.values() if name in r), 2) for name in columns}
    return rows
