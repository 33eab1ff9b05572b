# SPDX-License-Identifier: Apache-2.0
# TensorFlow's ParameterServerStrategy by TF_CONFIG with roles: the chief hands out steps, weights are at the parameter server. The chief
# saves after each step. Workers and servers serve until they are ended.
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["GRPC_FAIL_FAST"] = "use_caller"
import numpy  # noqa: E402
import task  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.config.threading.set_inter_op_parallelism_threads(4)
tf.config.threading.set_intra_op_parallelism_threads(1)
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
path, begun, losses = os.path.join(sys.argv[1], "server.npz"), 0, []
draw = numpy.random.default_rng(0)
start = [draw.normal(0, 0.5, (3, task.WIDTH)), numpy.zeros(task.WIDTH), draw.normal(0, 0.3, (task.WIDTH, 1)), numpy.zeros(1)]
if os.path.exists(path):
    with numpy.load(path) as saved:
        begun, start = int(saved["step"]), [saved[f"w{i}"] for i in range(4)]
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = [tf.Variable(a.astype("float32")) for a in start]
x, y = task.data()


@tf.function
def learn():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.tanh(tf.constant(x) @ w[0] + w[1]) @ w[2] + w[3] - tf.constant(y)) ** 2)
    for variable, slope in zip(w, tape.gradient(loss, w)):
        variable.assign_sub(0.2 * slope)
    return loss


for step in range(begun, task.STEPS):
    losses.append(float(coordinator.schedule(learn).fetch()))
    with open(path + ".new", "wb") as file:
        numpy.savez(file, step=step + 1, **{f"w{i}": v.numpy() for i, v in enumerate(w)})
    os.replace(path + ".new", path)
    if os.environ.get("TEST_DIES") and os.environ["MANTA_GANG_RESTARTS"] == "0" and step == task.DIES_AT:
        os.kill(os.getpid(), 9)
task.say([v.numpy() for v in w], losses[0], losses[-1], begun)
