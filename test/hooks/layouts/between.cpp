// A library without CUDA: the program does not name the enabled one itself.
extern "C" int run();
extern "C" int between() { return run(); }
