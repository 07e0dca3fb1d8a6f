# The rules are asked by a real shard server.
set(TEST_DEPS ps optim)
