set(TEST_DEPS graph_layers ops_reference ops_cpu)
