"""A generated transformer, spelled out as exporters write it, of about a given number of nodes: what passes find in real
models (decomposed LayerNormalization, Gelu and attention, shape arithmetic, Dropout, Identity, Casts, equal constants),
many times. Weights are tiny: the time is that of the passes."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS = 16, 2


class Writer:
    """Collects nodes and initializers; each call of `op` gives the name of the one output."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(1)

    def op(self, op_type, *inputs, **attributes):
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name + "_out"], name, **attributes))
        return name + "_out"

    def constant(self, value):
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape):
        return self.constant(self.random.normal(0, 0.1, shape).astype(np.float32))

    def number(self, value):
        return self.constant(np.float32(value))

    def layer_norm(self, x):
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("Pow", centred, self.number(2))
        deviation = self.op("Sqrt", self.op("Add", self.op("ReduceMean", square, axes=[-1]), self.number(1e-5)))
        normal = self.op("Mul", self.op("Div", centred, deviation), self.weight(HIDDEN))
        return self.op("Add", normal, self.weight(HIDDEN))

    def linear(self, x, inputs, outputs):
        return self.op("Add", self.op("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs))

    def heads(self, x, order):
        shape = self.op("Shape", x)
        dims = [self.op("Unsqueeze", self.op("Gather", shape, self.constant(np.int64(i)), axis=0),
                        self.constant(np.array([0]))) for i in (0, 1)]
        rest = [self.constant(np.array([HEADS])), self.constant(np.array([HIDDEN // HEADS]))]
        split = self.op("Reshape", x, self.op("Concat", *dims, *rest, axis=0))
        return self.op("Transpose", split, perm=order), dims

    def block(self, x):
        normal = self.op("Identity", self.layer_norm(x))
        (q, dims), (k, _), (v, _) = (self.heads(self.linear(normal, HIDDEN, HIDDEN), order)
                                     for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = self.op("Div", self.op("MatMul", q, k), self.number(np.sqrt(HIDDEN / HEADS)))
        back = self.op("Transpose", self.op("MatMul", self.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", back, self.op("Concat", *dims, self.constant(np.array([HIDDEN])), axis=0))
        x = self.op("Add", self.op("Dropout", self.linear(joined, HIDDEN, HIDDEN)), x)
        wide = self.linear(self.layer_norm(x), HIDDEN, 4 * HIDDEN)
        half = self.op("Mul", wide, self.op("Add", self.op("Erf", self.op("Div", wide, self.number(np.sqrt(2)))),
                                            self.number(1)))
        wide = self.op("Cast", self.op("Mul", half, self.number(0.5)), to=TensorProto.FLOAT)
        return self.op("Add", self.linear(wide, 4 * HIDDEN, HIDDEN), x)


def many_nodes(count):
    """A model with at least `count` nodes, less than one block more."""
    writer, x = Writer(), "x"
    while len(writer.nodes) < count:
        x = writer.block(x)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(writer.nodes, "many_nodes", [value("x", TensorProto.FLOAT, ["batch", "sequence", HIDDEN])],
                              [value(x, TensorProto.FLOAT, ["batch", "sequence", HIDDEN])], writer.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
