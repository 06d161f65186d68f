"""Makes the models of this folder with TensorFlow and tf2onnx; inputs and TensorFlow's results go to ``results.npz``.

``pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0``, then ``python make.py``.
"""

import os
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow as tf
import tf2onnx
from tensorflow.keras import layers

HERE = Path(__file__).parent


def images():
    """Convolutions, pools, gates, an LSTM in both directions, a layer norm, attention."""
    x = tf.keras.Input((16, 16, 3), name="image")
    y = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    y = layers.ReLU(max_value=6.0)(layers.BatchNormalization()(y))
    y = layers.MaxPooling2D(2)(layers.DepthwiseConv2D(3, padding="same")(y))
    gate = layers.Dense(8, activation="sigmoid")(layers.GlobalAveragePooling2D()(y))
    y = layers.Reshape((16, 8))(y * layers.Reshape((1, 1, 8))(gate))
    y = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(y)
    y = layers.LayerNormalization()(y)
    y = layers.Flatten()(layers.MultiHeadAttention(2, 6)(y, y))
    return tf.keras.Model(x, layers.Dense(4, activation="softmax")(y))


def words():
    """Words of any number and a GRU, which becomes a loop."""
    x = tf.keras.Input((None,), dtype="int32", name="words")
    return tf.keras.Model(x, layers.Dense(3)(layers.GRU(5)(layers.Embedding(20, 6)(x))))


def main():
    tf.random.set_seed(0)
    rng = np.random.default_rng(0)
    found = {}
    for make, given in (
        (images, rng.standard_normal((3, 16, 16, 3)).astype("f4")),
        (words, rng.integers(0, 20, (2, 7)).astype("i4")),
    ):
        model, name = make(), make.__name__
        spec = tf.TensorSpec(model.input.shape, given.dtype, name=model.input.name)
        called = tf.function(lambda x, model=model: model(x), input_signature=[spec])
        proto, _ = tf2onnx.convert.from_function(called, input_signature=[spec], opset=17)
        (HERE / f"{name}.onnx").write_bytes(proto.SerializeToString())
        found |= {f"{name}_in": given, f"{name}_out": model(given).numpy()}
    np.savez(HERE / "results.npz", **found)


if __name__ == "__main__":
    main()
