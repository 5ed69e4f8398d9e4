"""Accuracy helpers of static INT8 (--improve), each alone and all together, judged by ONNX Runtime on samples that nothing was
measured on.
Usage: improve_oracle.py NIBBLE SHARED_MODELS SOURCE
"""
import statistics

from common import Oracle
from int8_models import MODELS, answers, samples_of, saved, worst

HELPERS = {"equalize": ["equalize"], "balance": ["balance"], "correct-bias": ["correct-bias"],
           "all": ["equalize", "balance", "correct-bias"]}
WORSE = 1.0  # dB that held-out samples may lose where the samples measured on gained


def check_model(oracle, path):
    calibration, held_out = samples_of(oracle, path)
    folder = saved(calibration, oracle.folder / f"calibration_{path.stem}")
    reference = answers(path, held_out)
    gains, row = {}, []
    out = oracle.folder / "out.onnx"
    options = ["-o", out, "--activations", "uint8", "--target", "onnxruntime-cpu", "--calib", folder]
    oracle.json("quantize", path, *options)
    before = worst(reference, answers(out, held_out))
    for name, helpers in HELPERS.items():
        report = oracle.json("quantize", path, *options, *(w for h in helpers for w in ("--improve", h)))
        tried = report["improvements"]
        oracle.check(f"{path.stem}, {name}: all are reported", len(tried) == len(helpers), str(tried))
        for t in tried:
            oracle.check(f"{path.stem}, {name}: kept where it helps", t["kept"] == (float(t["sqnr_db"]) > float(t["base_sqnr_db"])), str(t))
        gain = worst(reference, answers(out, held_out)) - before
        kept = any(t["kept"] for t in tried)
        oracle.check(f"{path.stem}, {name}: on other samples", gain >= -WORSE and (kept or gain == 0), f"{gain:+.2f} dB")
        gains[name] = gain
        row.append(f"{name} {gain:+.1f}" if kept else f"{name} {'left out' if any(t['places'] for t in tried) else 'nothing to do'}")
    print(f"{path.stem}: {before:.1f} dB; {', '.join(row)}")
    return gains


def main():
    oracle = Oracle()
    rows = [check_model(oracle, path) for path in oracle.models(MODELS)]
    for name in HELPERS:
        best = max(row[name] for row in rows)
        print(f"{name}: median {statistics.median(row[name] for row in rows):+.2f} dB, at most {best:+.1f} dB")
        oracle.check(f"{name} helps somewhere", best > 0.5, f"{best:+.2f} dB")
    oracle.finish()


main()
