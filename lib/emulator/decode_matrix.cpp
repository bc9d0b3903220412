// mma, wmma, ldmatrix, stmatrix and movmatrix: shapes and types to fragments. PTX ISA 9.7.14.
#include "decoder.h"
#include "handlers.h"
#include "matrix.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

struct Shape {
  std::uint32_t m = 0, n = 0, k = 0;
};

/// Returns the three numbers of a shape such as "m16n8k16".
std::optional<Shape> shapeNamed(std::string_view modifier) {
  Shape shape;
  const char *at = modifier.data(), *end = at + modifier.size();
  for (auto [letter, number] : {std::pair{'m', &shape.m}, {'n', &shape.n}, {'k', &shape.k}}) {
    if (at == end || *at != letter)
      return std::nullopt;
    auto [next, error] = std::from_chars(at + 1, end, *number);
    if (error != std::errc{} || *number == 0 || *number > 256)
      return std::nullopt;
    at = next;
  }
  return at == end ? std::optional(shape) : std::nullopt;
}

/// The form of an mma or wmma by its modifiers, in their order.
struct Form {
  std::optional<Shape> shape;
  std::vector<Element> elements;
  std::vector<bool> columnMajor;
};

/// Returns nothing when a modifier is not implemented.
std::optional<Form> formOf(const Instruction &instruction) {
  static constexpr std::string_view known[] = {"sync", "aligned", "satfinite", "rn",         "mma",
                                               "load", "store",   "a",         "b",          "c",
                                               "d",    "shared",  "global",    "shared::cta"};
  Form form;
  for (std::string_view each : instruction.modifiers) {
    if (Element element = elementNamed(each); element != Element::None)
      form.elements.push_back(element);
    else if (auto shape = shapeNamed(each))
      form.shape = shape;
    else if (each == "row" || each == "col")
      form.columnMajor.push_back(each == "col");
    else if (std::find(std::begin(known), std::end(known), each) == std::end(known))
      return std::nullopt;
  }
  return form.shape ? std::optional(form) : std::nullopt;
}

/// Sets the registers of an operand, which must be as many as the fragment needs.
bool registersOf(FunctionDecoder &decoder, const ptx::Operand &operand, bool isResult,
                 Fragment &fragment) {
  auto registers = operand.kind == OperandKind::Vector ? operand.children
                                                       : std::span<const ptx::Operand>(&operand, 1);
  if (registers.size() * fragment.perRegister != fragment.elements())
    return false;
  Type type = fragment.element == Element::F64 ? Type::B64 : Type::B32;
  for (const ptx::Operand &each : registers)
    fragment.slots.push_back(isResult ? decoder.destination(each, type)
                                      : decoder.source(each, type));
  return true;
}

bool isMultiplied(const MatrixProduct &product) {
  auto isOneOf = [](Element element, std::initializer_list<Element> all) {
    return std::find(all.begin(), all.end(), element) != all.end();
  };
  Element a = product.a.element, b = product.b.element;
  Element c = product.c.element, d = product.d.element;
  if (isIntegral(a))
    return a != Element::S32 && isIntegral(b) && bitsOf(a) == bitsOf(b) && c == Element::S32 &&
           d == Element::S32;
  if (a == Element::F64)
    return b == a && c == a && d == a;
  bool byByte = isOneOf(a, {Element::E4M3, Element::E5M2});
  return (byByte ? isOneOf(b, {Element::E4M3, Element::E5M2}) : a == b) &&
         isOneOf(a, {Element::F16, Element::BF16, Element::TF32, Element::E4M3, Element::E5M2}) &&
         isOneOf(c, {Element::F16, Element::F32}) && isOneOf(d, {Element::F16, Element::F32});
}

bool isTooLarge(const MatrixProduct &product) {
  std::uint32_t m = product.m, n = product.n, k = product.k;
  return std::max({m * k, k * n, m * n}) * product.batches > mostMatrixElements;
}

/// Sets shapes, and each fragment's element and layout, but no registers yet.
bool layOutProduct(const Instruction &instruction, const Form &form, MatrixProduct &product) {
  bool isWmma = instruction.opcode == "wmma";
  std::vector<Element> types = form.elements; // elements of d, a, b, c
  if (isWmma && types.size() == 2)            // wmma omits the types of f16 factors
    types = {types[0], Element::F16, Element::F16, types[1]};
  if (types.size() != 4 || form.columnMajor.size() != 2)
    return false;
  const auto &[m, n, k] = *form.shape;
  product.m = m, product.n = n, product.k = k;
  product.clamps = instruction.has("satfinite");
  product.batches = !isWmma && m == 8 && k == 4 && types[1] == Element::F16 ? 4 : 1;
  product.d.element = types[0], product.a.element = types[1];
  product.b.element = types[2], product.c.element = types[3];
  if (!isMultiplied(product) || isTooLarge(product))
    return false;
  auto layOut = [&](MatrixRole role, bool transposed, Fragment &fragment) {
    Element element = fragment.element;
    return isWmma ? layOutWmma(role, element, m, n, k, fragment)
                  : layOutMma(role, element, m, n, k, transposed, fragment);
  };
  // Otherwise the layouts of mma are always row and col; the layouts of wmma matter only to its
  // loads.
  return layOut(MatrixRole::A, form.columnMajor[0], product.a) &&
         layOut(MatrixRole::B, !form.columnMajor[1], product.b) &&
         layOut(MatrixRole::Accumulator, false, product.c) &&
         layOut(MatrixRole::Accumulator, false, product.d);
}

bool decodeProduct(FunctionDecoder &decoder, const Instruction &instruction, const Form &form) {
  std::span<const ptx::Operand> operands = instruction.operands;
  MatrixProduct product;
  if (operands.size() != 4 || !layOutProduct(instruction, form, product) ||
      !registersOf(decoder, operands[1], false, product.a) ||
      !registersOf(decoder, operands[2], false, product.b) ||
      !registersOf(decoder, operands[3], false, product.c) ||
      !registersOf(decoder, operands[0], true, product.d))
    return false;
  if (decoder.failed())
    return true;
  emitWholeWarp(decoder);
  decoder.emit(multiplyMatrices, {}).extra =
      static_cast<std::uint32_t>(decoder.program().products.size());
  decoder.program().products.push_back(std::move(product));
  return true;
}

/// wmma.load.a.sync.aligned.row.m16n16k16.f16 {…}, [address], stride; store.d likewise.
bool decodeMatrixAccess(FunctionDecoder &decoder, const Instruction &instruction,
                        const Form &form) {
  bool loads = instruction.has("load");
  std::span<const ptx::Operand> operands = instruction.operands;
  if (operands.size() < 2 || operands.size() > 3 || form.elements.size() != 1 ||
      form.columnMajor.size() != 1 || bitsOf(form.elements[0]) < 8)
    return false;
  if (std::max({form.shape->m * form.shape->k, form.shape->k * form.shape->n,
                form.shape->m * form.shape->n}) > mostMatrixElements)
    return false;
  MatrixRole role = loads && instruction.has("a")   ? MatrixRole::A
                    : loads && instruction.has("b") ? MatrixRole::B
                                                    : MatrixRole::Accumulator;
  MatrixAccess access;
  access.columnMajor = form.columnMajor[0];
  const auto &[m, n, k] = *form.shape;
  if (!layOutWmma(role, form.elements[0], m, n, k, access.fragment) ||
      !registersOf(decoder, operands[loads ? 0 : 1], loads, access.fragment))
    return false;
  Op op;
  op.handler = loads ? loadMatrix : storeMatrix;
  op.space = spaceOf(instruction);
  decoder.address(operands[loads ? 1 : 0], op);
  if (operands.size() == 3)
    op.slot[6] = decoder.source(operands[2], Type::U32);
  op.slot[5] = decoder.temporary(8);
  op.extra = static_cast<std::uint32_t>(decoder.program().matrixAccesses.size());
  if (decoder.failed())
    return true;
  decoder.program().matrixAccesses.push_back(std::move(access));
  emitWholeWarp(decoder);
  decoder.emit(op);
  return true;
}

bool decodeTiles(FunctionDecoder &decoder, const Instruction &instruction) {
  bool loads = instruction.opcode == "ldmatrix";
  if (instruction.operands.size() != 2 || !instruction.has("m8n8") || !instruction.has("b16"))
    return false;
  const ptx::Operand &registers = instruction.operands[loads ? 0 : 1];
  auto all = registers.kind == OperandKind::Vector ? registers.children
                                                   : std::span<const ptx::Operand>(&registers, 1);
  std::uint32_t count = instruction.has("x4") ? 4 : instruction.has("x2") ? 2 : 1;
  if (all.size() != count)
    return false;
  Op op;
  op.handler = loads ? loadTiles : storeTiles;
  op.space = spaceOf(instruction) == Space::Generic ? Space::Generic : Space::Shared;
  op.extra = count;
  op.flags = instruction.has("trans") ? 1 : 0;
  decoder.address(instruction.operands[loads ? 1 : 0], op);
  for (std::uint32_t n = 0; n < count; ++n)
    op.slot[n] = loads ? decoder.destination(all[n], Type::B32) : decoder.source(all[n], Type::B32);
  if (decoder.failed())
    return true;
  emitWholeWarp(decoder);
  decoder.emit(op);
  return true;
}

bool decodeTranspose(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 2 || !instruction.has("trans"))
    return false;
  Slot a = decoder.source(instruction.operands[1], Type::B32);
  Slot d = decoder.destination(instruction.operands[0], Type::B32);
  if (decoder.failed())
    return true;
  emitWholeWarp(decoder);
  decoder.emit(transposeTile, {d, a});
  return true;
}

} // namespace

bool decodeMatrix(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  if (opcode == "ldmatrix" || opcode == "stmatrix")
    return decodeTiles(decoder, instruction);
  if (opcode == "movmatrix")
    return decodeTranspose(decoder, instruction);
  if (opcode != "mma" && opcode != "wmma")
    return false;
  std::optional<Form> form = formOf(instruction);
  if (!form)
    return false;
  if (opcode == "mma" || instruction.has("mma"))
    return decodeProduct(decoder, instruction, *form);
  return decodeMatrixAccess(decoder, instruction, *form);
}

} // namespace tally::emulator
