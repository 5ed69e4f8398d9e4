"""Static INT8 for onnxruntime-cpu of the digit nets and of real models, with ONNX Runtime as the judge.

For each: the model loads; what the runtime makes of it has integer kernels, and no more float products than the report
says; codes behind each quantizer are the same in our executor, but for one step in 1 of 1,000; whole answers agree; and
against float it does no worse than ONNX Runtime's own quantize_static on the same samples with the same calibrator.
Usage: static_int8_oracle.py NIBBLE SHARED_MODELS SOURCE
"""
import collections
import statistics
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

from common import DIGIT_NETS, Oracle, feeds_for, session, sqnr
from int8_models import MODELS, answers, samples_of, saved, worst

# Products that are left float: attention's of two activations, and ConvTranspose, which the runtime does not run in integers.
FLOAT_PRODUCTS = {"digits_vit": 4, "bert_mlm_random": 4, "ch_PP-OCRv4_rec_infer": 4, "ch_PP-OCRv4_det_infer": 2}
SAME_CODES = 0.999
END_TO_END = 30  # dB
AMONG_THEMSELVES = 3  # dB that we may be further from the optimized model than the runtime's own unoptimized run
BELOW = 0.5  # dB that one model may be below quantize_static
POINTS = 0.5  # of accuracy that a digit net may lose


def answers_as_written(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    runtime = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [np.ravel(o) for o in runtime.run(None, feeds)]


def baseline(oracle, path, samples, held_out, reference):
    """SQNR of quantize_static's model, on a runtime without saturation; None where it makes none or it does not load."""
    source, out = (oracle.folder / f"{n}.onnx" for n in ("at17", "theirs"))
    oracle.run("convert", path, "-o", source, "--opset", "17", "-q")
    out.unlink(missing_ok=True)
    subprocess.run([sys.executable, oracle.source / "bench" / "quantize_static.py", source, samples, out], capture_output=True,
                   cwd=oracle.folder)
    try:
        return worst(reference, answers(out, held_out, exact=True))
    except Exception as error:
        print(f"{path.stem}: quantize_static: {str(error)[:100]}")
        return None


def check_codes(oracle, name, model, feeds):
    """Layer by layer on the same inputs: what lies between quantizers gets ONNX Runtime's codes (of the graph as written) and
    its own codes are compared."""
    proto = onnx.load(model)
    codes = [n.output[0] for n in proto.graph.node if n.op_type == "QuantizeLinear"]
    zero = {n.output[0]: n.input[2] for n in proto.graph.node if n.op_type == "QuantizeLinear"}
    types = {i.name: i.data_type for i in proto.graph.initializer}
    infos = [onnx.helper.make_tensor_value_info(c, types[zero[c]], None) for c in codes]
    del proto.graph.output[:]
    proto.graph.output.extend(infos)
    shown, cut = oracle.folder / "shown.onnx", oracle.folder / "cut.onnx"
    onnx.save(proto, shown)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    theirs = ort.InferenceSession(str(shown), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    for node in proto.graph.node:
        for i, value in enumerate(node.input):
            if value in zero:
                node.input[i] = value + ".given"
    for info, expected in zip(infos, theirs):
        proto.graph.input.append(onnx.helper.make_tensor_value_info(info.name + ".given", types[zero[info.name]], expected.shape))
    onnx.save(proto, cut)
    ours = oracle.outputs(cut, {**feeds, **{code + ".given": expected for code, expected in zip(codes, theirs)}})
    off, total = 0, 0
    for code, expected in zip(codes, theirs):
        distance = np.abs(expected.astype(np.int64) - ours[code].astype(np.int64))
        off += int((distance > 1).sum())
        total += distance.size
        oracle.check(f"{name}: codes of {code}", (distance > 1).mean() <= 1 - SAME_CODES, f"{(distance > 1).mean():.2%} too far")
    oracle.check(f"{name}: codes layer by layer", off <= (1 - SAME_CODES) * total, f"{off} of {total} more than a step away")


def check_model(oracle, path):
    name = path.stem
    calibration, held_out = samples_of(oracle, path)
    folder = saved(calibration, oracle.folder / f"calibration_{name}")
    out, optimized = oracle.folder / f"{name}.onnx", oracle.folder / f"{name}.optimized.onnx"
    oracle.json("quantize", path, "-o", out, "--activations", "uint8", "--target", "onnxruntime-cpu", "--calib", folder)
    onnx.checker.check_model(str(out), full_check=True)
    session(out, optimized=optimized)
    kinds = collections.Counter(n.op_type for n in onnx.load(optimized).graph.node)
    integer = sum(n for kind, n in kinds.items()
                  if kind.startswith("QLinear") or kind in ("QGemm", "MatMulIntegerToFloat"))
    products = ("Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm", "FusedGemm", "MatMulNBits")
    left = sum(kinds[kind] for kind in products)
    oracle.check(f"{name}: integer kernels", integer > 0 and left <= FLOAT_PRODUCTS.get(name, 0), str(dict(kinds)))
    reference = answers(path, held_out)
    theirs = answers(out, held_out)
    ours_one = oracle.outputs(out, held_out[0])
    first = answers(out, held_out[:1])
    names = [o.name for o in session(out).get_outputs()]
    # Sums that saturate on CPUs without VNNI would tell the two apart; elsewhere they are the same in any case.
    oracle.check(f"{name}: does not saturate", worst(answers(out, held_out[:1], exact=True), first) > 100)
    agreement = min(float(sqnr(f, np.ravel(ours_one[n]))) for f, n in zip(first, names) if f.dtype == np.float32)
    # On some models rounding one code otherwise moves the answers far: then the runtime is as far from itself, without
    # its optimizations.
    itself = worst(first, answers_as_written(out, held_out[0]))
    oracle.check(f"{name}: our executor and ONNX Runtime", agreement >= min(END_TO_END, itself - AMONG_THEMSELVES),
                 f"{agreement:.1f} dB; the runtime against itself {itself:.1f} dB")
    check_codes(oracle, name, out, held_out[0])
    form = oracle.folder / "operators.onnx"
    oracle.json("quantize", path, "-o", form, "--activations", "uint8", "--target", "onnxruntime-cpu", "--calib", folder,
                "--emit", "qoperator")
    onnx.checker.check_model(str(form))
    same = worst(first, answers(form, held_out[:1]))
    oracle.check(f"{name}: the form of operators", same >= min(END_TO_END, itself - AMONG_THEMSELVES), f"{same:.1f} dB")
    written = oracle.outputs(form, held_out[0])
    same = min(float(sqnr(f, np.ravel(written[n]))) for f, n in zip(answers(form, held_out[:1]), names) if f.dtype == np.float32)
    oracle.check(f"{name}: the form of operators in our executor", same >= min(END_TO_END, itself - AMONG_THEMSELVES), f"{same:.1f} dB")
    ours, other = worst(reference, theirs), baseline(oracle, path, folder, held_out, reference)
    print(f"{name}: {ours:.1f} dB, quantize_static {'does not load' if other is None else f'{other:.1f} dB'}; "
          f"{integer} integer kernels, {left} float products; our executor {agreement:.1f} dB from ONNX Runtime, "
          f"which is {min(itself, 150):.1f} dB from itself without optimizations")
    if other is None:
        return None
    oracle.check(f"{name}: beside quantize_static", ours >= other - BELOW, f"{ours:.1f} against {other:.1f} dB")
    return ours - other


def check_dynamic(oracle):
    """Dynamic quantization fuses to one kernel for each product, and our executor gives its answers."""
    paths = [oracle.digits / "digits_vit.onnx"]
    if oracle.shared.is_dir():
        paths += [oracle.shared / "bert_mlm_random.onnx", oracle.shared / "t5_encoder_random.onnx"]
    for path in paths:
        out, optimized = oracle.folder / "dynamic.onnx", oracle.folder / "dynamic.optimized.onnx"
        report = oracle.json("quantize", path, "-o", out, "--activations", "dynamic", "--target", "onnxruntime-cpu")
        onnx.checker.check_model(str(out), full_check=True)
        feeds = feeds_for(path, 0, 16)
        session(out, optimized=optimized)
        kinds = collections.Counter(n.op_type for n in onnx.load(optimized).graph.node)
        quantized = sum(v["readers"] for v in report["verdicts"] if v["verdict"] == "quantized")
        oracle.check(f"{path.stem}: dynamic kernels", kinds["DynamicQuantizeMatMul"] == quantized > 0, str(dict(kinds)))
        ours = oracle.outputs(out, feeds)
        agreement = min(float(sqnr(o, np.ravel(ours[n.name]))) for o, n in zip(answers(out, [feeds]), session(out).get_outputs())
                        if o.dtype == np.float32)
        to_float = worst(answers(path, [feeds]), answers(out, [feeds]))
        oracle.check(f"{path.stem}: dynamic, our executor", agreement > 100, f"{agreement:.1f} dB")
        oracle.check(f"{path.stem}: dynamic, against float", to_float > 30, f"{to_float:.1f} dB")
        print(f"{path.stem}, dynamic: {to_float:.1f} dB, {quantized} DynamicQuantizeMatMul")


def check_accuracy(oracle):
    with np.load(oracle.digits / "heldout.npz") as data:
        count = len(data[data.files[0]])
    for name in DIGIT_NETS:
        path, out = oracle.digits / f"{name}.onnx", oracle.folder / f"accuracy_{name}.onnx"
        oracle.json("quantize", path, "-o", out, "--activations", "uint8", "--target", "onnxruntime-cpu", "--calib",
                    oracle.digits / "heldout.npz")
        done = oracle.run("diff", path, out, "--data", oracle.digits / "heldout.npz", "--labels", oracle.digits / "labels.npy",
                          "--gate", f"accuracy.drop<={POINTS}")
        oracle.check(f"{name}: accuracy on {count} images", done.returncode == 0, done.stderr)


def check_memory(oracle):
    """Calibration on 500 samples takes what it takes on 5."""
    with np.load(oracle.digits / "heldout.npz") as data:
        name = next(n for n in data.files if "label" not in n)
        rows = data[name]
    peaks = []
    for count in (5, 500):
        samples = oracle.folder / f"{count}.npz"
        np.savez(samples, **{name: np.concatenate([rows, rows])[:count]})
        report = oracle.json("calibrate", oracle.digits / "digits_cnn.onnx", "--data", samples, "-o", oracle.folder / "r.json")
        peaks.append(report["peak_rss_bytes"])
    oracle.check("memory of calibration does not grow with samples", peaks[1] <= 1.1 * peaks[0], str(peaks))


def main():
    oracle = Oracle()
    ort.set_default_logger_severity(4)
    paths = oracle.models(MODELS)
    gains = [check_model(oracle, path) for path in paths]
    gains = [g for g in gains if g is not None]
    oracle.check("above quantize_static in the median", statistics.median(gains) > 0, str(gains))
    check_dynamic(oracle)
    check_accuracy(oracle)
    check_memory(oracle)
    oracle.finish()


main()
