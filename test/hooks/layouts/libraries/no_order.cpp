// On a GPU the order of a stream is the device's.
extern "C" void useEmulatorsOrder() {}
