#include "redirected_exports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tally::runtime {
namespace {

using Address = std::uintptr_t;

/// One object of the process, as its program headers and its dynamic section describe it.
class LoadedObject {
public:
  LoadedObject(const dl_phdr_info &info)
      : base(info.dlpi_addr), headers(info.dlpi_phdr, info.dlpi_phnum) {
    for (const ElfW(Phdr) & each : headers)
      if (each.p_type == PT_DYNAMIC)
        dynamic = reinterpret_cast<const ElfW(Dyn) *>(base + each.p_vaddr);
    strings = at<char>(DT_STRTAB);
  }

  Address loadAddress() const { return base; }

  /// The text of the first entry with `tag`, or of each with it.
  template <class Use> void forEachText(ElfW(Sxword) tag, Use use) const {
    for (const ElfW(Dyn) *each = dynamic; strings && each && each->d_tag != DT_NULL; ++each)
      if (each->d_tag == tag)
        use(std::string_view(strings + each->d_un.d_val));
  }

  std::span<ElfW(Sym)> symbols() const {
    auto *first = at<ElfW(Sym)>(DT_SYMTAB);
    return first ? std::span(first, symbolCount()) : std::span<ElfW(Sym)>();
  }
  std::string_view nameOf(const ElfW(Sym) & symbol) const { return strings + symbol.st_name; }

  /// The words that relocation has filled with addresses of symbols.
  template <class Use> void forEachSlot(Use use) const {
    auto see = [&](ElfW(Sxword) table, ElfW(Sxword) size) {
      auto *first = at<ElfW(Rela)>(table);
      for (const ElfW(Rela) & each : std::span(first, first ? value(size) / sizeof *first : 0))
        if (isSlot(ELF64_R_TYPE(each.r_info)))
          use(reinterpret_cast<Address *>(base + each.r_offset));
    };
    see(DT_RELA, DT_RELASZ);
    if (value(DT_PLTREL) == DT_RELA)
      see(DT_JMPREL, DT_PLTRELSZ);
  }

  /// What the pages that hold `address` may be used for: PROT_...; 0: it is not the object's.
  int protectionOf(Address address) const {
    int protection = 0;
    for (const ElfW(Phdr) & each : headers) {
      if (address - (base + each.p_vaddr) >= each.p_memsz)
        continue;
      if (each.p_type == PT_LOAD)
        protection = (each.p_flags & PF_R ? PROT_READ : 0) |
                     (each.p_flags & PF_W ? PROT_WRITE : 0) | (each.p_flags & PF_X ? PROT_EXEC : 0);
      // It comes behind those of type PT_LOAD. The loader has made it read-only.
      if (each.p_type == PT_GNU_RELRO)
        protection &= ~PROT_WRITE;
    }
    return protection;
  }

private:
  static bool isSlot(unsigned type) {
#if defined(__x86_64__)
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#elif defined(__aarch64__)
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#else
#error "the relocations of x86-64 and AArch64 are known"
#endif
  }

  ElfW(Xword) value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn) *each = dynamic; each && each->d_tag != DT_NULL; ++each)
      if (each->d_tag == tag)
        return each->d_un.d_val;
    return 0;
  }
  /// The loader adds the load address to the addresses in a dynamic section that it can write to.
  template <class T> T *at(ElfW(Sxword) tag) const {
    Address found = value(tag);
    return reinterpret_cast<T *>(found != 0 && found < base ? found + base : found);
  }

  std::size_t symbolCount() const {
    if (auto *hash = at<std::uint32_t>(DT_HASH))
      return hash[1];
    auto *hash = at<std::uint32_t>(DT_GNU_HASH);
    if (!hash)
      return 0;
    std::uint32_t buckets = hash[0], firstHashed = hash[1], words = hash[2];
    const std::uint32_t *bucket = hash + 4 + words * (sizeof(Address) / sizeof *hash);
    const std::uint32_t *chain = bucket + buckets;
    std::uint32_t last = *std::max_element(bucket, bucket + buckets);
    if (last < firstHashed)
      return firstHashed;
    while ((chain[last - firstHashed] & 1) == 0) // the last one of a chain is marked
      ++last;
    return last + 1;
  }

  Address base;
  std::span<const ElfW(Phdr)> headers;
  const ElfW(Dyn) *dynamic = nullptr;
  const char *strings = nullptr;
};

/// Calls `use` with each object of the namespace, under the loader's lock.
template <class Use> void forEachObject(Use use) {
  auto see = [](dl_phdr_info *info, std::size_t, void *data) {
    (*static_cast<Use *>(data))(LoadedObject(*info));
    return 0;
  };
  dl_iterate_phdr(see, &use);
}

/// Words that may be written to for as long as it lives.
class Writable {
public:
  Writable(const LoadedObject &object, Address first, std::size_t bytes)
      : protection(object.protectionOf(first)) {
    if ((protection & PROT_WRITE) != 0)
      return;
    Address page = static_cast<Address>(sysconf(_SC_PAGESIZE));
    begin = reinterpret_cast<void *>(first & ~(page - 1));
    size = ((first + bytes + page - 1) & ~(page - 1)) - (first & ~(page - 1));
    // Others may be running what lies there.
    error = mprotect(begin, size, protection | PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  }
  ~Writable() {
    if (begin && error == 0)
      mprotect(begin, size, protection);
  }
  Writable(const Writable &) = delete;
  Writable &operator=(const Writable &) = delete;

  int error = 0; ///< of mprotect

private:
  int protection;
  void *begin = nullptr;
  std::size_t size = 0;
};

struct Redirected {
  ElfW(Sym) * symbol;
  void *from, *to;
};

std::vector<Redirected> chooseIn(const LoadedObject &object, const Replacement &replacement) {
  std::vector<Redirected> chosen;
  for (ElfW(Sym) & each : object.symbols()) {
    if (each.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(each.st_info) != STT_FUNC)
      continue;
    auto *function = reinterpret_cast<void *>(object.loadAddress() + each.st_value);
    void *instead = replacement(object.nameOf(each), function);
    if (instead != function)
      chosen.push_back({&each, function, instead});
  }
  return chosen;
}

/// Other threads may read the word meanwhile.
void write(Address *word, Address value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

Error refused(const char *what, int number) {
  return {std::string(what) + " cannot be written to: " + std::strerror(number)};
}

} // namespace

Result<void> redirectExports(void *library, const Replacement &replacement,
                             const std::function<void()> &ready) {
  link_map *map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
    return Error{std::string("no loaded library: ") + dlerror()};
  std::vector<Redirected> chosen;
  Result<void> result;
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() != map->l_addr)
      return;
    chosen = chooseIn(object, replacement);
    ready();
    std::span<ElfW(Sym)> table = object.symbols();
    Writable opened(object, reinterpret_cast<Address>(table.data()), table.size_bytes());
    if (opened.error != 0)
      result = refused("the symbol table", opened.error);
    for (const Redirected &each : chosen)
      if (opened.error == 0) // a value below the load address wraps, as it does where it is used
        write(&each.symbol->st_value, reinterpret_cast<Address>(each.to) - map->l_addr);
  });
  if (!result)
    return result;
  std::unordered_map<Address, Address> replaced;
  for (const Redirected &each : chosen)
    replaced.emplace(reinterpret_cast<Address>(each.from), reinterpret_cast<Address>(each.to));
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() == map->l_addr)
      return;
    object.forEachSlot([&](Address *slot) {
      auto found = replaced.find(*slot);
      if (found == replaced.end())
        return;
      Writable opened(object, reinterpret_cast<Address>(slot), sizeof *slot);
      if (opened.error == 0)
        write(slot, found->second);
      else
        result = refused("an offset table", opened.error);
    });
  });
  return result;
}

unsigned objectsNamed(std::string_view soname) {
  unsigned count = 0;
  forEachObject([&](const LoadedObject &object) {
    object.forEachText(DT_SONAME, [&](std::string_view name) { count += name == soname; });
  });
  return count;
}

bool isNeeded(std::string_view soname) {
  bool any = false;
  forEachObject([&](const LoadedObject &object) {
    object.forEachText(DT_NEEDED, [&](std::string_view name) { any |= name == soname; });
  });
  return any;
}

} // namespace tally::runtime
