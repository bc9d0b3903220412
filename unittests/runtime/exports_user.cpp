// An object that uses the library in three ways: by calls, by a table of constants, and by a
// variable that a constructor has set.
extern "C" {
int exportedOne();
int exportedTwo();

namespace {
using Function = int (*)();
Function const volatile constants[] = {&exportedOne, &exportedTwo};
Function variable = nullptr;
__attribute__((constructor)) void copy() { variable = &exportedOne; }
} // namespace

int callOne() { return exportedOne(); }
int callTwo() { return exportedTwo(); }
int callConstant(int index) { return constants[index](); }
int callVariable() { return variable(); }
Function *variablesPlace() { return &variable; }
}
