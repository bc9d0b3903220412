// A program without CUDA in front of it.
extern "C" int between();
int main() { return between(); }
