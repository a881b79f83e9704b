"""TensorFlow's side of the benchmark: tensorflow_step.py MODEL BATCH REPLICAS THREADS

Writes `ready` when the first step could begin, then answers each line of its standard
input by a training step and its wall milliseconds. A step is what `MirroredStrategy` does with
BATCH images on each of REPLICAS logical CPU devices: forward and backward pass, the mean of the
gradients over the replicas, and SGD's update of each. With 0 replicas there is one device
and no strategy. LeNet-5 and ResNet-34 are those of `workloads/models/golden/make.py`, with
images last in channels, which is the only layout that TensorFlow's convolutions on the CPU have.
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402

model, batch, replicas, threads = sys.argv[1], *map(int, sys.argv[2:5])
layers = tf.keras.layers

tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
if replicas:
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tf.config.set_logical_device_configuration(cpu, logical)


def lenet5():
    """Two convolutions and three linear layers, 61,706 parameters; images of 28 by 28."""
    images = x = tf.keras.Input((28, 28, 1))
    x = layers.Conv2D(6, 5, padding="same", activation="relu")(x)
    x = layers.MaxPool2D(2)(x)
    x = layers.Conv2D(16, 5, activation="relu")(x)
    x = layers.MaxPool2D(2)(x)
    x = layers.Flatten()(x)
    for width in (120, 84):
        x = layers.Dense(width, activation="relu")(x)
    return tf.keras.Model(images, layers.Dense(10)(x))


def resnet34():
    """Basic blocks 3, 4, 6, 3 of widths 64 to 512 behind a stem of 3 by 3; images of 32 by 32."""

    def convolved(x, width, size, stride):
        if size == 3:
            x = layers.ZeroPadding2D(1)(x)
        x = layers.Conv2D(width, size, strides=stride, use_bias=False)(x)
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)

    images = tf.keras.Input((32, 32, 3))
    x = layers.ReLU()(convolved(images, 64, 3, 1))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = layers.ReLU()(convolved(x, width, 3, stride))
            y = convolved(y, width, 3, 1)
            if x.shape[-1] != width:
                x = convolved(x, width, 1, stride)
            x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(images, layers.Dense(10)(x))


strategy = tf.distribute.get_strategy()
if replicas:
    strategy = tf.distribute.MirroredStrategy([f"CPU:{device}" for device in range(replicas)])
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    network = {"lenet5": lenet5, "resnet34": resnet34}[model]()
    optimizer = tf.keras.optimizers.SGD(0.01)
images = tf.random.uniform((batch, *network.input_shape[1:]))
labels = tf.range(batch) % 10
whole = batch * max(replicas, 1)


def of_a_replica():
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images, training=True))
        loss = tf.reduce_sum(losses) / whole
    gradients = tape.gradient(loss, network.trainable_variables)
    optimizer.apply_gradients(zip(gradients, network.trainable_variables))
    return loss


@tf.function
def step():
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(of_a_replica), axis=None)


print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    step().numpy()
    print((time.perf_counter() - start) * 1e3, flush=True)
