// A program without CUDA in front of the enabled library.
extern "C" int between();
int main() { return between(); }
