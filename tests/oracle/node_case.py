"""Models of one node with given inputs, for comparing an operator with ONNX Runtime's."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import session

MS = "com.microsoft"


class Case:
    """One node. Inputs are arrays, TensorProtos (kept as constants) or None; outputs are names."""

    def __init__(self, what, op, inputs, outputs=1, domain=MS, opset=21, constants=(), limit=1e-5, **attributes):
        self.what, self.op, self.domain, self.opset = what, op, domain, opset
        self.inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        self.outputs = [
            f"y{i}" if wanted else "" for i, wanted in enumerate([1] * outputs if isinstance(outputs, int) else outputs)
        ]
        self.constants, self.limit, self.attributes = constants, limit, attributes

    def model(self, path):
        names = ["" if value is None else f"x{i}" for i, value in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attributes)
        inputs, initializers = [], []
        for i, value in enumerate(self.inputs):
            if isinstance(value, TensorProto):
                value.name = names[i]
                initializers.append(value)
            elif value is not None and i in self.constants:
                initializers.append(onnx.numpy_helper.from_array(value, names[i]))
            elif value is not None:
                inputs.append(
                    helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                )
        # ONNX Runtime works out the types that a file has to name, but for the scores of attention operators.
        outputs = [
            (
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                if name == "y3"
                else onnx.ValueInfoProto(name=name)
            )
            for name in self.outputs
            if name
        ]
        graph = helper.make_graph([node], "g", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MS, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset < 23 else 11)
        onnx.save(model, path)
        for output, inferred in zip(model.graph.output, session(path).get_outputs()):
            output.type.tensor_type.elem_type = ELEMENT_TYPES[inferred.type]
        onnx.save(model, path)

    def feeds(self):
        return {
            f"x{i}": value
            for i, value in enumerate(self.inputs)
            if value is not None and not isinstance(value, TensorProto) and i not in self.constants
        }


ELEMENT_TYPES = {
    "tensor(float)": TensorProto.FLOAT,
    "tensor(float16)": TensorProto.FLOAT16,
    "tensor(int32)": TensorProto.INT32,
    "tensor(int8)": TensorProto.INT8,
    "tensor(uint8)": TensorProto.UINT8,
    "tensor(int16)": TensorProto.INT16,
    "tensor(uint16)": TensorProto.UINT16,
    "tensor(int4)": TensorProto.INT4,
    "tensor(uint4)": TensorProto.UINT4,
    "tensor(int64)": TensorProto.INT64,
}
