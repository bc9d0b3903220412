// A library without CUDA between the program and the enabled library: the program itself does not
// name the enabled one.
extern "C" int run();
extern "C" int between() { return run(); }
