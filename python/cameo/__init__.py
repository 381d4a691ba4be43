"""Cameo: compile and run trained networks.

    import cameo, numpy as np

    model = cameo.load("model.onnx")                # or a plan
    scores = model(np.zeros((1, 3, 224, 224), np.float32))

    cameo.Network("model.onnx").build("model.plan")  # ship the plan
    with cameo.Engine("model.plan") as engine, engine.context(threads=1) as context:
        print(context.run({"image": image})["scores"])

SPDX-License-Identifier: Apache-2.0
"""
from ._api import Context, Engine, Network, Port, load, refit
from ._library import CameoError
from ._library import lib as _lib

__version__ = _lib.cameo_version().decode()
__all__ = ["CameoError", "Context", "Engine", "Network", "Port", "load", "refit", "__version__"]
