"""LSTM, GRU and RNN against ONNX Runtime on random nodes: every direction, function, clip and optional input.

The limit is 1e-5. ONNX Runtime has no layout 1: there our own answer to layout 0 is the reference.
"""
import numpy as np
from onnx import TensorProto, helper

from common import Oracle, answers, save, session, worst

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
# With the number of parameters that each takes.
ACTIVATIONS = {"Sigmoid": 0, "Tanh": 0, "Relu": 0, "Affine": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "ScaledTanh": 2,
               "HardSigmoid": 2, "Elu": 1, "Softsign": 0, "Softplus": 0}
OPSETS = (7, 14, 22)


def random_activations(random, count):
    names = [str(name) for name in random.choice(list(ACTIVATIONS), count)]
    alphas = [float(random.uniform(0.1, 0.6)) for name in names if ACTIVATIONS[name] > 0]
    betas = [float(random.uniform(0.1, 0.6)) for name in names if ACTIVATIONS[name] > 1]
    out = {"activations": names}
    if alphas:
        out["activation_alpha"] = alphas
    if betas:
        out["activation_beta"] = betas
    return out


def random_node(random, op):
    """A node's attributes and its inputs by name; None for one left out."""
    steps, batch, size, hidden = (int(random.integers(1, n)) for n in (9, 40, 20, 40))
    if random.integers(8) == 0:
        steps, hidden = 30, 300
    direction = str(random.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    gates, functions = GATES[op], FUNCTIONS[op]
    attributes = {"hidden_size": hidden, "direction": direction}
    if random.integers(2):
        attributes |= random_activations(random, functions * directions)
    if random.integers(3) == 0:
        attributes["clip"] = float(random.uniform(0.2, 1))
    if op == "LSTM" and random.integers(3) == 0:
        attributes["input_forget"] = 1
    if op == "GRU" and random.integers(2):
        attributes["linear_before_reset"] = 1
    values = lambda *dims, scale=1.0: (random.standard_normal(dims) * scale).astype(np.float32)
    maybe = lambda value: value if random.integers(2) else None
    inputs = {
        "X": values(steps, batch, size),
        "W": values(directions, gates * hidden, size, scale=0.4),
        "R": values(directions, gates * hidden, hidden, scale=0.7 / hidden ** 0.5),
        "B": maybe(values(directions, 2 * gates * hidden, scale=0.5)),
        "sequence_lens": maybe(random.integers(1, steps + 1, batch).astype(np.int32)),
        "initial_h": maybe(values(directions, batch, hidden)),
    }
    if op == "LSTM":
        inputs["initial_c"] = maybe(values(directions, batch, hidden))
        inputs["P"] = maybe(values(directions, 3 * hidden, scale=0.4))
    return attributes, inputs


def write(path, op, attributes, inputs, opset):
    node = helper.make_node(op, [name if value is not None else "" for name, value in inputs.items()],
                            ["Y", "Y_h", "Y_c"][:3 if op == "LSTM" else 2], **attributes)
    infos = [(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in inputs.items() if value is not None]
    return save(path, [node], infos, [(name, TensorProto.FLOAT, None) for name in node.output], {}, opset)


def batch_first(name, value):
    if name == "Y":
        return value.transpose(2, 0, 1, 3)
    return value.swapaxes(0, 1) if name in ("X", "initial_h", "initial_c", "Y_h", "Y_c") else value


def main():
    oracle = Oracle()
    random = np.random.default_rng(7)
    for op in GATES:
        errors = []
        for i in range(80):
            attributes, inputs = random_node(random, op)
            feeds = {name: value for name, value in inputs.items() if value is not None}
            path = write(oracle.folder / "m.onnx", op, attributes, inputs, OPSETS[i % 3])
            reference = answers(session(path), feeds)
            if not all(np.abs(value).max() < 1e3 for value in reference.values()):
                continue  # functions without bounds went out of hand
            what = f"{op} {i} {attributes} {[(name, value.shape) for name, value in feeds.items()]}"
            try:
                ours = oracle.outputs(path, feeds)
                errors.append(worst(reference, ours))
                oracle.check(what, errors[-1] <= 1e-5, f"relative RMS {errors[-1]:.2e}")
                turned = {name: None if value is None else np.ascontiguousarray(batch_first(name, value))
                          for name, value in inputs.items()}
                path = write(oracle.folder / "m.onnx", op, attributes | {"layout": 1}, turned, max(OPSETS[i % 3], 14))
                got = oracle.outputs(path, {name: value for name, value in turned.items() if value is not None})
                error = worst({name: batch_first(name, value) for name, value in ours.items()}, got)
                oracle.check(f"{what}, layout 1", error == 0, f"relative RMS {error:.2e}")
            except RuntimeError as e:
                oracle.check(what, False, str(e)[-200:])
        print(f"{op}: largest relative RMS of {len(errors)} nodes {max(errors, default=0):.1e}")
    oracle.finish()


main()
