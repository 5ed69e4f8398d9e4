"""Writes the digit nets as ONNX, node for node as PyTorch's exporters do."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nets import BLOCKS, EPSILON, HEADS, PATCH, TOKENS, WIDTH


class Builder:
    def __init__(self):
        self.nodes, self.initializers, self.known = [], [], set()

    def weight(self, name, value):
        if name not in self.known:
            self.known.add(name)
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def const(self, node, value):
        out = f"{node}_output_0"
        self.nodes.append(helper.make_node("Constant", [], [out], name=node, value=numpy_helper.from_array(np.asarray(value))))
        return out

    def op(self, kind, inputs, name, outputs=1, **attributes):
        outs = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, outs, name=name, **attributes))
        return outs[0] if outputs == 1 else outs

    def model(self, name, output, opset, ir_version):
        # Exporters give the last node the graph output's name.
        assert list(self.nodes[-1].output) == [output]
        self.nodes[-1].output[0] = "logits"
        graph = helper.make_graph(
            self.nodes, name, [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version,
                                  producer_name="digits", producer_version="1")
        onnx.checker.check_model(model, full_check=True)
        return model


def export_vit(p):
    b = Builder()
    w = lambda name: b.weight(name, p[name])

    def reshape(x, tail, scope):
        """To [batch, *tail] with the batch read from x, as a tracing exporter writes it."""
        shape = b.op("Shape", [x], f"{scope}/Shape")
        batch = b.op("Gather", [shape, b.const(f"{scope}/Constant", np.int64(0))], f"{scope}/Gather", axis=0)
        parts = [b.op("Unsqueeze", [batch, b.const(f"{scope}/Constant_1", np.array([0]))], f"{scope}/Unsqueeze")]
        parts += [b.const(f"{scope}/Constant_{i + 2}", np.array([t])) for i, t in enumerate(tail)]
        return b.op("Reshape", [x, b.op("Concat", parts, f"{scope}/Concat", axis=0)], f"{scope}/Reshape")

    def linear(x, name, scope):
        y = b.op("MatMul", [x, w(name + ".weight")], f"{scope}/MatMul")
        return b.op("Add", [w(name + ".bias"), y], f"{scope}/Add")

    def layer_norm(x, name, scope):
        mean = b.op("ReduceMean", [x], f"{scope}/ReduceMean", axes=[-1])
        d = b.op("Sub", [x, mean], f"{scope}/Sub")
        square = b.op("Pow", [d, b.const(f"{scope}/Constant", np.float32(2))], f"{scope}/Pow")
        var = b.op("ReduceMean", [square], f"{scope}/ReduceMean_1", axes=[-1])
        root = b.op("Sqrt", [b.op("Add", [var, b.const(f"{scope}/Constant_1", np.float32(EPSILON))], f"{scope}/Add")], f"{scope}/Sqrt")
        y = b.op("Mul", [b.op("Div", [d, root], f"{scope}/Div"), w(name + ".weight")], f"{scope}/Mul")
        return b.op("Add", [y, w(name + ".bias")], f"{scope}/Add_1")

    def gelu(x, scope):
        e = b.op("Erf", [b.op("Div", [x, b.const(f"{scope}/Constant", np.float32(2 ** 0.5))], f"{scope}/Div")], f"{scope}/Erf")
        e = b.op("Add", [e, b.const(f"{scope}/Constant_1", np.float32(1))], f"{scope}/Add")
        return b.op("Mul", [b.op("Mul", [x, e], f"{scope}/Mul"), b.const(f"{scope}/Constant_2", np.float32(0.5))], f"{scope}/Mul_1")

    def attention(x, name, scope):
        h = reshape(linear(x, name + ".qkv", f"{scope}/qkv"), [TOKENS, 3, HEADS, WIDTH // HEADS], f"{scope}/heads")
        h = b.op("Transpose", [h], f"{scope}/Transpose", perm=[2, 0, 3, 1, 4])
        q, k, v = (b.op("Gather", [h, b.const(f"{scope}/Constant_{i}", np.int64(i))], f"{scope}/Gather_{i}", axis=0) for i in range(3))
        q = b.op("Mul", [q, b.const(f"{scope}/scale", np.float32((WIDTH // HEADS) ** -0.5))], f"{scope}/Mul")
        k = b.op("Transpose", [k], f"{scope}/Transpose_1", perm=[0, 1, 3, 2])
        a = b.op("Softmax", [b.op("MatMul", [q, k], f"{scope}/MatMul")], f"{scope}/Softmax", axis=-1)
        a = b.op("Transpose", [b.op("MatMul", [a, v], f"{scope}/MatMul_1")], f"{scope}/Transpose_2", perm=[0, 2, 1, 3])
        return linear(reshape(a, [TOKENS, WIDTH], f"{scope}/join"), name + ".proj", f"{scope}/proj")

    x = reshape("input", [4, 2, 4, 2], "/patches")
    x = b.op("Transpose", [x], "/patches/Transpose", perm=[0, 1, 3, 2, 4])
    x = linear(reshape(x, [TOKENS, PATCH], "/tokens"), "patch_embed", "/patch_embed")
    x = b.op("Add", [x, w("pos_embed")], "/Add")
    for i in range(BLOCKS):
        name, scope = f"blocks.{i}", f"/blocks.{i}"
        a = attention(layer_norm(x, f"{name}.norm1", f"{scope}/norm1"), f"{name}.attn", f"{scope}/attn")
        x = b.op("Add", [x, a], f"{scope}/Add")
        h = linear(layer_norm(x, f"{name}.norm2", f"{scope}/norm2"), f"{name}.mlp.fc1", f"{scope}/mlp/fc1")
        h = linear(gelu(h, f"{scope}/mlp/act"), f"{name}.mlp.fc2", f"{scope}/mlp/fc2")
        x = b.op("Add", [x, h], f"{scope}/Add_1")
    x = b.op("ReduceMean", [layer_norm(x, "norm", "/norm")], "/ReduceMean", axes=[1], keepdims=0)
    return b.model("digits_vit", b.op("Gemm", [x, b.weight("head.weight", p["head.weight"].T), w("head.bias")], "/head/Gemm",
                                      alpha=1.0, beta=1.0, transB=1), 17, 8)


def export_cnn(p, state):
    b = Builder()
    x = "input"
    for i in range(3):
        x = b.op("Conv", [x, b.weight(f"conv{i}.weight", p[f"conv{i}.weight"])], f"/conv{i}/Conv", dilations=[1, 1], group=1,
                 kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        names = [b.weight(f"bn{i}.{n}", (p | state)[f"bn{i}.{n}"]) for n in ("weight", "bias", "running_mean", "running_var")]
        x = b.op("BatchNormalization", [x, *names], f"/bn{i}/BatchNormalization", epsilon=EPSILON, momentum=0.9)
        x = b.op("Relu", [x], f"/relu{i}/Relu")
        if i == 1:
            x = b.op("MaxPool", [x], "/pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x], "/GlobalAveragePool")], "/Flatten", axis=1)
    return b.model("digits_cnn", b.op("Gemm", [x, b.weight("fc.weight", p["fc.weight"]), b.weight("fc.bias", p["fc.bias"])],
                                      "/fc/Gemm", alpha=1.0, beta=1.0, transB=1), 13, 7)
