"""The tflite target's static INT8 of a CNN, converted by onnx2tf and run in LiteRT: its answers against our executor's, and its
accuracy against the float net's. And the forms that the target's rules keep away from, as onnx2tf converts them wrong: when
it no longer does, this says so.
Usage: litert_oracle.py NIBBLE SHARED_MODELS SOURCE
"""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from common import Oracle, session, sqnr  # noqa: E402

AGREEMENT = 35  # dB
EXACT = 100  # dB, between ONNX Runtime and our executor on the small models
POINTS = 0.5  # of accuracy
NET = "digits_cnn"


def converted(oracle, model):
    folder = oracle.folder / f"{model.stem}_tf"
    done = subprocess.run([pathlib.Path(sys.executable).with_name("onnx2tf"), "-i", model, "-o", folder, "-n"],
                          capture_output=True, text=True, cwd=oracle.folder)
    file = folder / f"{model.stem}_float32.tflite"
    if not file.exists():
        raise RuntimeError(f"onnx2tf {model.name}: {(done.stdout + done.stderr)[-500:]}")
    interpreter = Interpreter(str(file))
    interpreter.allocate_tensors()
    return interpreter


def answers(interpreter, rows):
    """Of samples [1, channels, height, width], with channels first."""
    given, made = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    out = []
    for row in rows:
        interpreter.set_tensor(given["index"], np.ascontiguousarray(row.transpose(0, 2, 3, 1)))
        interpreter.invoke()
        result = interpreter.get_tensor(made["index"])
        out.append(result.transpose(0, 3, 1, 2) if result.ndim == 4 else result)
    return np.concatenate(out)


def ours(oracle, model, samples):
    saved = oracle.folder / "ours.npz"
    done = oracle.run("run", model, "--data", samples, "-o", saved, "--quiet")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    with np.load(saved) as arrays:
        return arrays[arrays.files[0]]


def check_net(oracle):
    path, samples = oracle.digits / f"{NET}.onnx", oracle.digits / "heldout.npz"
    labels = np.load(oracle.digits / "labels.npy")
    with np.load(samples) as arrays:
        rows = arrays[session(path).get_inputs()[0].name]
    rows = [rows[i:i + 1] for i in range(len(rows))]
    right = {"float": (ours(oracle, path, samples).reshape(len(rows), -1).argmax(-1) == labels).mean() * 100}
    for kind in ("int8", "int16"):
        out = oracle.folder / f"{kind}.onnx"
        oracle.json("quantize", path, "-o", out, "--activations", kind, "--target", "tflite", "--calib", samples)
        expected = ours(oracle, out, samples).reshape(len(rows), -1)
        got = answers(converted(oracle, out), rows).reshape(expected.shape)
        agreement = float(sqnr(expected, got))
        right[kind] = (got.argmax(-1) == labels).mean() * 100
        print(f"{NET}, {kind}: LiteRT {agreement:.1f} dB from our executor; right: float {right['float']:.2f} %, LiteRT {right[kind]:.2f} %")
        oracle.check(f"{NET}, {kind}: LiteRT and our executor", agreement >= AGREEMENT, f"{agreement:.1f} dB")
        oracle.check(f"{NET}, {kind}: accuracy in LiteRT", right[kind] >= right["float"] - POINTS, f"{right[kind]:.2f} %")


def small_model(oracle, name, by_channel=False, integer_bias=False, relu_by_saturation=False):
    """A Conv of dequantized codes; those of the weight have 7 bits, as ONNX Runtime may saturate beyond."""
    random = np.random.default_rng(4)
    scale = random.uniform(0.005, 0.02, 4).astype(np.float32) if by_channel else np.float32(0.01)
    given = {"w": random.integers(-63, 64, (4, 4, 1, 1)).astype(np.int8), "ws": scale, "wz": np.zeros(np.shape(scale), np.int8),
             "s": np.float32(0.001), "z": np.int8(0), "floor": np.int8(-128), "b": random.normal(0, 0.1, 4).astype(np.float32)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=0)]
    bias = "b"
    if integer_bias:
        given |= {"bi": random.integers(-9000, 9000, 4).astype(np.int32), "bs": np.float32(0.001) * scale}
        nodes.append(helper.make_node("DequantizeLinear", ["bi", "bs"], ["bd"], axis=0))
        bias = "bd"
    nodes.append(helper.make_node("Conv", ["d", "v", bias], ["c" if relu_by_saturation else "y"]))
    if relu_by_saturation:
        # The least code stands for 0: whatever is below becomes 0.
        given["wide"] = np.float32(0.004)
        nodes += [helper.make_node("QuantizeLinear", ["c", "wide", "floor"], ["r"]),
                  helper.make_node("DequantizeLinear", ["r", "wide", "floor"], ["y"])]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in given.items()])
    path = oracle.folder / f"{name}.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def check_form(oracle, name, right, **form):
    """A form that is `right`, or wrong, once converted; ONNX Runtime and our executor agree on all of them."""
    path = small_model(oracle, name, **form)
    x = np.random.default_rng(7).uniform(-0.1, 0.1, (1, 4, 8, 8)).astype(np.float32)
    expected = session(path).run(None, {"x": x})[0]
    exact = float(sqnr(expected, oracle.outputs(path, {"x": x})["y"]))
    oracle.check(f"{name}: ONNX Runtime and our executor", exact >= EXACT, f"{exact:.1f} dB")
    agreement = float(sqnr(expected, answers(converted(oracle, path), [x])))
    print(f"{name}: LiteRT {agreement:.1f} dB from ONNX Runtime, {min(exact, 150):.1f} dB from which is our executor")
    advice = "" if right else "; onnx2tf converts it right now: see configs/targets/tflite.yaml"
    oracle.check(f"{name}: LiteRT is {'right' if right else 'wrong'}", (agreement >= AGREEMENT) == right, f"{agreement:.1f} dB{advice}")


def main():
    oracle = Oracle()
    check_net(oracle)
    check_form(oracle, "plain", True)
    check_form(oracle, "scales_by_channel", False, by_channel=True)
    check_form(oracle, "integer_bias", False, integer_bias=True)
    check_form(oracle, "relu_by_saturation", False, relu_by_saturation=True)
    oracle.finish()


main()
