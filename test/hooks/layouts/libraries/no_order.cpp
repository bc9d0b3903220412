// On a GPU the device keeps the order of a stream.
extern "C" void useEmulatorsOrder() {}
