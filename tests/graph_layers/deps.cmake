set(TEST_DEPS ops_reference ops_cpu)
