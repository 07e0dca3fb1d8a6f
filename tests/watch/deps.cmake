set(TEST_DEPS config data)
