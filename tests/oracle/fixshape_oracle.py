"""Real models with fixed shapes: ONNX Runtime loads them, their outputs have the dims they declare, and the answers are
those of the model as it was. Wholly fixed, and with only the leading dimensions fixed, at two lengths."""
import onnx

from common import Oracle, answers, feeds_for, session, worst

LIMIT = 1e-5
# Inputs that decide which branch runs: the other one does not fit the shapes.
VALUES = {"silero_vad_v5": {"sr": 16000}}


def fix(oracle, model, fixed, options):
    done = oracle.run("fixshape", model, "-o", fixed, *options)
    if oracle.check(f"{model.stem}: fixshape", done.returncode == 0, done.stderr[-300:]):
        onnx.checker.check_model(str(fixed), full_check=True)
        return session(fixed)
    return None


def compare(oracle, what, original, fixed, feeds):
    expected = answers(original, feeds)
    got = answers(fixed, {i.name: feeds[i.name] for i in fixed.get_inputs()})
    error = worst(expected, got)
    oracle.check(f"{what}: answers", error <= LIMIT, f"relative RMS {error:.2e}")
    for output in fixed.get_outputs():
        declared, real = output.shape, got[output.name].shape
        fits = len(declared) == len(real) and all(d == r for d, r in zip(declared, real) if isinstance(d, int))
        oracle.check(f"{what}: dims of {output.name}", fits, f"{declared} declared, {real} come out")


def main():
    oracle = Oracle()
    for model in oracle.models():
        original, fixed = session(model), oracle.folder / "fixed.onnx"
        values = VALUES.get(model.stem, {})
        constants = [word for name, number in values.items() for word in ("--value", f"{name}={number}")]
        feeds = feeds_for(model, 0)
        shapes = {name: array.shape for name, array in feeds.items() if name not in values}
        text = {name: "x".join(map(str, dims)) or "scalar" for name, dims in shapes.items()}
        whole = fix(oracle, model, fixed, constants + [w for name in text for w in ("--input", f"{name}={text[name]}")])
        if whole is not None:
            compare(oracle, model.stem, original, whole, feeds)
            oracle.check(f"{model.stem}: all static", all(isinstance(d, int) for o in whole.get_outputs() for d in o.shape))
        if values or all(isinstance(d, int) for i in original.get_inputs() for d in i.shape):
            continue
        first = [f"{name}={'x'.join([str(dims[0])] + ['?'] * (len(dims) - 1))}" for name, dims in shapes.items() if dims]
        part = fix(oracle, model, fixed, [w for text in first for w in ("--input", text)])
        for length in (6, 12):
            if part is not None:
                compare(oracle, f"{model.stem}, length {length}", original, part, feeds_for(model, 1, length))
    oracle.finish()


main()
