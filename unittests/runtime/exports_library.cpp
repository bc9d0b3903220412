// What redirected_exports_test leads elsewhere.
extern "C" {
int exportedOne() { return 1; }
int exportedTwo() { return 2; }
}
