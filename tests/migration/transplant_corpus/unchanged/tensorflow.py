import tensorflow as tf

with tf.device("/gpu:0"):
    x = tf.zeros(2)
print(tf.test.is_built_with_cuda())
