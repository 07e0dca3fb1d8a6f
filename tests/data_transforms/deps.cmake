set(TEST_DEPS data)
