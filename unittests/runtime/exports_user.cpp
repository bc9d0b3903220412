// An object that is bound to the library: by calls, by a table of constants, by a variable that a
// constructor has set.
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
