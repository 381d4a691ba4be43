"""ONNX's own cases out of the installed onnx package: those of single nodes, which it holds as programs, as files.

Usage: node_cases.py FOLDER

Makes FOLDER/NAME/{model.onnx,test_data_set_0/{input,output}_I.pb}, and FOLDER/made when all is there.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

WRITERS = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
           "optional_type": numpy_helper.from_optional, "tensor_type": numpy_helper.from_array}


def write(path, message):
    with open(path, "wb") as f:
        f.write(message.SerializeToString())


def write_values(folder, kind, infos, values):
    assert len(infos) == len(values), folder
    for i, (info, value) in enumerate(zip(infos, values)):
        if not isinstance(value, TensorProto):
            value = WRITERS[info.type.WhichOneof("value")](value, info.name)
        write(os.path.join(folder, f"{kind}_{i}.pb"), value)


def main():
    top = sys.argv[1]
    for case in load_node_model_tests():
        for k, (inputs, outputs) in enumerate(case.data_sets):
            folder = os.path.join(top, case.name, f"test_data_set_{k}")
            os.makedirs(folder, exist_ok=True)
            write_values(folder, "input", case.model.graph.input, inputs)
            write_values(folder, "output", case.model.graph.output, outputs)
        write(os.path.join(top, case.name, "model.onnx"), case.model)
    with open(os.path.join(top, "made"), "w"):
        pass


if __name__ == "__main__":
    main()
