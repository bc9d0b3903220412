// A library whose exports redirected_exports_test redirects.
extern "C" {
int exportedOne() { return 1; }
int exportedTwo() { return 2; }
}
