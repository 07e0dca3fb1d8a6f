set(TEST_DEPS ops_reference)
