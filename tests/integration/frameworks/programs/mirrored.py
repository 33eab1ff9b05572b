# SPDX-License-Identifier: Apache-2.0
# TensorFlow's MultiWorkerMirroredStrategy by TF_CONFIG: variables on every worker, gradients summed over gRPC. The chief saves.
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy  # noqa: E402
import task  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
workers = strategy.num_replicas_in_sync
rank, path = int(os.environ["MANTA_GANG_RANK"]), os.path.join(sys.argv[1], "mirrored.npz")
draw, begun, losses = numpy.random.default_rng(0), 0, []
start = [draw.normal(0, 0.5, (3, task.WIDTH)), numpy.zeros(task.WIDTH), draw.normal(0, 0.3, (task.WIDTH, 1)), numpy.zeros(1)]
if os.path.exists(path):
    with numpy.load(path) as saved:
        begun, start = int(saved["step"]), [saved[f"w{i}"] for i in range(4)]
with strategy.scope():
    w = [tf.Variable(a.astype("float32")) for a in start]
x, y = map(tf.constant, task.data(rank, workers))


@tf.function
def learn():
    def one():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y) ** 2)
        slopes = tape.gradient(loss, w)
        slopes = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, slopes)
        for variable, slope in zip(w, slopes):
            variable.assign_sub(0.2 * slope)
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(one), axis=None)


for step in range(begun, task.STEPS):
    losses.append(float(learn()))
    if rank == 0:
        with open(path + ".new", "wb") as file:
            numpy.savez(file, step=step + 1, **{f"w{i}": v.numpy() for i, v in enumerate(w)})
        os.replace(path + ".new", path)
    task.may_die(step)
task.say([v.numpy() for v in w], losses[0], losses[-1], begun)
